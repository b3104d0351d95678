#!/usr/bin/python3
"""PyTorch's DistributedDataParallel over gloo, one thread a rank: images a second in training.

Prints images a second of all ranks together, of the steps after a warm-up. Images are random, lie in
memory as floats, and are picked in a shuffled order: no loader takes part. Where PyTorch is missing
it says so on stderr, and exits with 3.
"""

import argparse
import datetime
import os
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "unit", "train", "fixtures"))
sys.dont_write_bytecode = True

IMAGES = 8192  # of a rank
WARM_UP_S = 1
REPORT_EVERY = 100  # steps, as the tutorials

# The batch a rank takes, and the shape of an image.
MODELS = {
    "mlp": (64, (1, 28, 28)),
    "convnet": (100, (1, 28, 28)),
    "lenet": (256, (3, 32, 32)),
}


def make_model(name):
    import models

    return {"mlp": models.Mlp, "convnet": models.ConvNet, "lenet": models.LeNet}[name]()


def make_optimizer(name, parameters):
    from torch.optim import SGD

    if name == "lenet":
        return SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-4)
    return SGD(parameters, lr=0.01)


class Job:
    """A rank's model, images and optimizer."""

    def __init__(self, rank, options):
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(rank)
        self.batch, shape = MODELS[options.model]
        self.images = torch.rand(IMAGES, *shape)
        self.labels = torch.randint(10, (IMAGES,))
        self.model = make_model(options.model)
        self.optimizer = make_optimizer(options.model, self.model.parameters())
        self.loss = torch.nn.CrossEntropyLoss()
        # One rank communicates nothing, so it does without the copies.
        if options.ranks > 1:
            self.model = torch.nn.parallel.DistributedDataParallel(
                self.model, gradient_as_bucket_view=True
            )
        self.order = torch.randperm(IMAGES)
        self.steps = 0

    def step(self):
        per_epoch = len(self.order) // self.batch
        begin = self.steps % per_epoch * self.batch
        picks = self.order[begin : begin + self.batch]
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.loss(self.model(self.images[picks]), self.labels[picks])
        loss.backward()
        self.optimizer.step()
        if self.steps % REPORT_EVERY == 0:
            loss.item()
        self.steps += 1


def measure(rank, options, store):
    import torch.distributed as dist

    dist.init_process_group(
        "gloo",
        init_method="file://" + store,
        rank=rank,
        world_size=options.ranks,
        timeout=datetime.timedelta(seconds=120),
    )
    job = Job(rank, options)
    steps = timed_steps(job, options, dist)
    dist.barrier()
    began = time.perf_counter()
    for _ in range(steps):
        job.step()
    dist.barrier()
    if rank == 0:
        images = steps * job.batch * options.ranks
        print(f"{images / (time.perf_counter() - began):.1f}", flush=True)
    dist.destroy_process_group()


def timed_steps(job, options, dist):
    """Warms up, and returns the number of steps that take about options.seconds: rank 0's."""
    import torch

    began = time.perf_counter()
    job.step()
    dist.barrier()
    once = torch.tensor([0.0])
    steps = 1
    while True:
        job.step()
        steps += 1
        once[0] = time.perf_counter() - began
        dist.broadcast(once, 0)
        if once.item() > WARM_UP_S:
            return max(1, int(steps / once.item() * options.seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        print(f"PyTorch is not there ({error})", file=sys.stderr)
        sys.exit(3)
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        torch.multiprocessing.spawn(measure, (options, store), nprocs=options.ranks)


if __name__ == "__main__":
    main()
