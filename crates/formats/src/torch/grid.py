

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

# Sizes of products: rows; and columns and inner dimensions, in all pairs.
ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
SQUARES = [512, 1024, 2048, 4096, 8192, 16384]

# Sizes of attention: (batch, tokens), and (heads, heads of keys and values, size of a head).
SEQUENCES = [(1, 512), (1, 1024), (1, 2048), (1, 4096), (1, 8192), (1, 16384), (8, 512), (8, 1024), (8, 2048), (32, 512), (32, 1024)]
CACHES = list(itertools.product([1, 8, 32, 128], [512, 2048, 8192, 32768]))
HEADS = [(8, 8, 64), (16, 16, 64), (32, 32, 128), (32, 8, 128), (64, 8, 128)]

SMALL_ROWS, SMALL_SQUARES = [1, 16, 128, 512], [256, 1024]
SMALL_SEQUENCES, SMALL_CACHES, SMALL_HEADS = [(1, 128), (1, 512)], [(1, 512), (4, 512)], [(8, 8, 64), (8, 2, 64)]

# Bytes of the largest tensor that is tried.
LARGEST = 8e9


def sizes(kernel, small, few):
    """Sizes of a kernel: all of the grid, or a fixed random choice of `few` of them."""
    grid = products(small) if kernel == "product" else attentions(kernel, small)
    return grid if few is None or few >= len(grid) else random.Random(0).sample(grid, few)


def products(small):
    """Sizes (m, n, k) in all pairs, to include projections to wider and to narrower layers."""
    rows, squares = (SMALL_ROWS, SMALL_SQUARES) if small else (ROWS, SQUARES)
    return list(itertools.product(rows, squares, squares))


def attentions(kernel, small):
    """Sizes (batch, tokens, heads, kv_heads, head_dim)."""
    if kernel == "decode-attention":
        sequences = SMALL_CACHES if small else CACHES
    else:
        sequences = SMALL_SEQUENCES if small else SEQUENCES
    return [(*sequence, *heads) for heads in (SMALL_HEADS if small else HEADS) for sequence in sequences]


def product_call(size, dtype, device):
    m, n, k = size
    first, second = torch.randn(m, k, device=device).to(dtype), torch.randn(k, n, device=device).to(dtype)
    return lambda: torch.mm(first, second)


def attention_call(kernel, size, dtype, device):
    batch, tokens, heads, kv_heads, head_dim = size
    queries = 1 if kernel == "decode-attention" else tokens
    query = torch.randn(batch, heads, queries, head_dim, device=device).to(dtype)
    key, value = (torch.randn(batch, kv_heads, tokens, head_dim, device=device).to(dtype) for _ in range(2))
    options = {"is_causal": kernel == "causal-attention"}
    if kv_heads != heads:
        options["enable_gqa"] = True
    return lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value, **options)


def largest_tensor(kernel, size, dtype):
    if kernel == "product":
        m, n, k = size
        count = max(m * k, k * n, m * n)
    else:
        batch, tokens, heads, kv_heads, head_dim = size
        count = batch * tokens * max(heads, kv_heads) * head_dim
    return count * dtype.itemsize


def table(kernel, precision, clock, device, small, few):
    """Measured rows of one kernel in one precision."""
    dtype, rows = PRECISIONS[precision], []
    for size in sizes(kernel, small, few):
        if largest_tensor(kernel, size, dtype) > LARGEST:
            continue
        try:
            call = product_call(size, dtype, device) if kernel == "product" else attention_call(kernel, size, dtype, device)
            rows.append([float(dimension) for dimension in size] + [clock.seconds(call)])
        except (RuntimeError, TypeError) as error:
            # Out of memory, or not implemented for the precision.
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            print(f"left out: {kernel} of {size} in {precision}: {reason}", file=sys.stderr)
    return rows


KERNELS = ["product", "attention", "causal-attention", "decode-attention"]


def measured_kernels(device, device_class, kernels=KERNELS, precisions=tuple(PRECISIONS), small=False, few=None, seconds=0.05):
    """The document of measured kernels, as a dictionary."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    name = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else torch.device(device).type
    clock, tables = Clock(device, budget=seconds), []
    with torch.no_grad():
        for kernel, precision in itertools.product(kernels, precisions):
            rows = table(kernel, precision, clock, device, small, few)
            if rows:
                source = f"PyTorch {torch.__version__} on {name}"
                tables.append(
                    {"class": device_class, "kernel": kernel, "precision": precision, "source": source, "rows": rows}
                )
                print(f"{kernel} in {precision}: {len(rows)} sizes", file=sys.stderr)
    return {"schema": "stagewright.costs/1", "name": f"kernels on {name}", "kernels": tables}


def main():
    parser = argparse.ArgumentParser(description="Measures kernels on this device and writes stagewright.costs/1 JSON.")
    parser.add_argument("--out", help="output file [default: standard output]")
    parser.add_argument("--class", dest="device_class", help="device class [default: a name for the device]")
    parser.add_argument("--device", help="device, as PyTorch names it [default: cuda if there is one, or cpu]")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=KERNELS, help="kernels [default: all]")
    parser.add_argument(
        "--precisions", nargs="+", choices=list(PRECISIONS), default=list(PRECISIONS), help="precisions [default: all]"
    )
    parser.add_argument("--small", action="store_true", help="few and small sizes")
    parser.add_argument("--few", type=int, metavar="N", help="N sizes of each kernel: 8 to 32 calibrate learned costs")
    parser.add_argument("--seconds", type=float, default=0.05, help="time for one size [default: 0.05]")
    arguments = parser.parse_args()
    device = arguments.device or default_device()
    made = measured_kernels(
        device,
        arguments.device_class or class_of(device),
        arguments.kernels,
        arguments.precisions,
        arguments.small,
        arguments.few,
        arguments.seconds,
    )
    text = json.dumps(made, indent=1)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
