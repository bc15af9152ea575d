"""The command line of a short training, for tests."""

FLAGS = ("--model_name=ssd_tiny", "--batch_size=4", "--log_every_n_steps=1", "--save_summaries_secs=1000")


def argv(records, train_dir, *flags):
    return ["-m", "ssd.train", f"--dataset_dir={records}", f"--train_dir={train_dir}", *FLAGS, *flags]
