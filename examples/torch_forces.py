# SPDX-License-Identifier: Apache-2.0
"""Force matching: a network gives the energy of some atoms, its gradient the forces, and the loss is of the forces, so that
training needs second derivatives. torch.compile refuses these; here the whole step is one program. Run it with PyTorch:

    PYTHONPATH=build/gcc/python python examples/torch_forces.py"""
import copy
import time

import torch
from torch import nn

import anfora.torch


class Energy(nn.Module):
    """A sum over pairs of a network of their distances."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def energy(self, r: torch.Tensor) -> torch.Tensor:
        apart = r[:, None] - r[None] + torch.eye(len(r), dtype=r.dtype)[..., None]
        return self.net(apart.square().sum(-1, keepdim=True).sqrt()).sum()

    def forward(self, r: torch.Tensor) -> tuple:
        with torch.enable_grad():
            r = r.detach().requires_grad_()
            energy = self.energy(r)
            return energy, -torch.autograd.grad(energy, r, create_graph=True)[0]


def loss(out: tuple, forces: torch.Tensor) -> torch.Tensor:
    return (out[1] - forces).square().mean()


def main() -> None:
    torch.manual_seed(0)
    eager = Energy().double()
    compiled = copy.deepcopy(eager)
    optimizers = [torch.optim.Adam(m.parameters(), lr=3e-3) for m in (eager, compiled)]
    step = anfora.torch.compile_step(compiled, loss, optimizers[1])

    def eager_step(r: torch.Tensor, forces: torch.Tensor) -> float:
        optimizers[0].zero_grad()
        value = loss(eager(r), forces)
        value.backward()
        optimizers[0].step()
        return value.item()
    r, forces = torch.randn(12, 3).double(), torch.randn(12, 3).double()
    step(r, forces), eager_step(r, forces)  # the first compiles
    for name, f in (("eager", eager_step), ("anfora", step)):
        start = time.perf_counter()
        values = [f(r, forces) for _ in range(100)]
        print(f"{name}: loss {values[-1]:.12f} after {len(values)} steps, {(time.perf_counter() - start) * 10:.2f} ms each")


if __name__ == "__main__":
    main()
