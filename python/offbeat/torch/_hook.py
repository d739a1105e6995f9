# SPDX-License-Identifier: BSD-3-Clause
"""A communication hook for DistributedDataParallel.

DistributedDataParallel checks the annotations of the hook. They must be types, so this file does not import
``annotations`` from ``__future__``.
"""

import torch
import torch.distributed as dist


def allreduce_hook(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average gradients with offbeat in a model that keeps its own backend.

    group = torch.distributed.new_group(backend="offbeat")
    model.register_comm_hook(group, offbeat.torch.allreduce_hook)
    """
    gradients = bucket.buffer()
    gradients.div_(group.size())
    work = dist.all_reduce(gradients, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])
