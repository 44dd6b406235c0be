"""Measures products and attention of many sizes on this device and writes them as stagewright.costs/1.

    stagewright exporter kernels > stagewright_kernels.py
    python3 stagewright_kernels.py --class h100 --out h100.json

Products are `torch.mm`, m × k by k × n; attention is `scaled_dot_product_attention`: of all tokens to all tokens, the
same with a causal mask, and of one new token to a cache. Each size is one row with the median of repeated calls. Sizes
that do not fit into memory and precisions that the device cannot compute with are left out, and standard error says so.

`--seconds` limits the time for one size; the whole grid takes minutes on a GPU. `--small` measures a smaller grid, for
a quick look or for a CPU. `--few 32` measures 32 sizes of each kernel, which is enough to calibrate the learned costs of
Stagewright for the device. fp32 products are in single precision and not in TF32.
"""

import argparse
import itertools
import json
import random
import statistics
import sys
import time

import torch
