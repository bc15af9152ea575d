# make demo: the whole path on sample data, from nothing but Python and make. make test: everything that is checked.
PYTHON ?= python3
BIN := .venv/bin
DEMO := demo

.PHONY: demo test slow lint format clean

demo: .venv
	rm -rf $(DEMO)
	$(BIN)/python tools/make_sample_voc.py --output_dir=$(DEMO)/voc
	$(BIN)/python tools/pascalvoc_to_tfrecords.py --dataset_dir=$(DEMO)/voc --output_dir=$(DEMO)/records --output_name=shapes
	$(BIN)/python -m ssd.train --flagfile=recipes/demo.flags --dataset_dir=$(DEMO)/records --train_dir=$(DEMO)/run
	$(BIN)/python -m ssd.evaluate --checkpoint_path=$(DEMO)/run --dataset_dir=$(DEMO)/records --dataset_split_name=val --eval_dir=$(DEMO)/eval

test: lint
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow and not gpu"

slow: .venv
	$(BIN)/python -m pytest -m slow

lint: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv $(DEMO) build *.egg-info

.venv: .venv/.installed

.venv/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "Python 3.10 or newer is needed, this is " + sys.version)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@
