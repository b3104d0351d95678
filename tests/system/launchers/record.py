"""A script whose rank 1 fails under torch's @record, which describes the error to the launcher."""
import os

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    if os.environ["RANK"] == "1":
        raise ValueError("the batch is empty")


main()
