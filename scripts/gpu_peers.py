"""What PyTorch takes for the benchmark's main rows on an NVIDIA card: cuBLAS, cuFFT, and Laplacian attention by cdist and products.

Prints JSON: medians in seconds by CUDA events, after warming up, in f32 without TF32. A row that has the name of a row of `wgattn bench`
has its sizes, and its layouts on both sides; what is computed otherwise has a name of its own. Rows of several operations are eager code,
launched one by one. Interrupted, it prints the rows that are done with "complete": false and exits with 130; where there is no PyTorch, or
none that sees a card, it says so and exits with 3.
"""

import json
import math
import signal
import statistics
import sys

# Whoever starts a script in the background may have it ignore this.
signal.signal(signal.SIGINT, signal.default_int_handler)

try:
    import torch
except ImportError as error:
    print(f"gpu_peers: {error}", file=sys.stderr)
    raise SystemExit(3) from None
except KeyboardInterrupt:
    print("gpu_peers: interrupted while PyTorch was loaded", file=sys.stderr)
    raise SystemExit(130) from None


def median_seconds(work, least=10, most_seconds=1.0):
    """The median of single runs between two events."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    times = []
    while len(times) < least or (sum(times) < most_seconds and len(times) < 200):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
        if sum(times) > most_seconds and len(times) >= 3:
            break
    return statistics.median(times)


def random(*shape):
    return torch.rand(*shape, device="cuda") * 2 - 1


def newton_schulz_factors(upper, lower, tolerance=1e-4):
    """The factors c = 2/(2 − δ²) of the scaled iteration for a spectrum in [lower, upper], with one step more than the bound δ asks for."""
    delta, factors = (upper - lower) / (upper + lower), []
    while delta > tolerance:
        factors.append(2 / (2 - delta * delta))
        delta = delta * delta / (2 - delta * delta)
    return [*factors, 2 / (2 - delta * delta)]


def laplacian_attention(heads=8, tokens=4096, width=32, landmarks=49, bandwidth=8.0, epsilon=1e-3):
    """Kernel matrices by cdist, a Newton–Schulz inverse by products, and the output, as eager PyTorch code writes it.

    Landmarks are given, as in the benchmark's case. The number of steps is the worst case's, for asking the data would wait for the card;
    the residual, which ours reports as well, is left out.
    """
    q, k, v = (random(heads, tokens, width) for _ in range(3))
    chosen = random(heads, landmarks, width)
    eye = torch.eye(landmarks, device="cuda")
    factors = newton_schulz_factors(landmarks + epsilon, epsilon)

    def run():
        rows = torch.exp(-torch.cdist(q, chosen, p=1) / bandwidth)
        columns = torch.exp(-torch.cdist(chosen, k, p=1) / bandwidth)
        middle = torch.exp(-torch.cdist(chosen, chosen, p=1) / bandwidth) + epsilon * eye
        inverse = 2 * eye / (middle.abs().sum(-1).amax(-1)[:, None, None] + epsilon)
        for factor in factors:
            inverse = factor * (2 * inverse - inverse @ (middle @ inverse))
        return rows @ (inverse @ (columns @ v))

    return run


def cases():
    """Names and work, the rows of `bench --quick` first."""

    def matmul(name, *left, columns):
        a, b = random(*left), random(*left[:-2], left[-1], columns)
        return f"matmul/{name}", lambda: a @ b

    yield matmul("square_256", 256, 256, columns=256)
    yield matmul("features_4096", 8, 4096, 49, columns=32)

    x, y = random(8, 3136, 32), random(8, 49, 32)
    yield "kernel_matrix/tokens_3136x49", lambda: torch.exp(-torch.cdist(x, y, p=1) / 32.0)
    yield "nystrom_attention/tokens_4096", laplacian_attention()

    q, k, v = (random(1, 8, 1024, 64) for _ in range(3))
    yield "exact_attention/softmax_1024", lambda: torch.softmax(q @ k.transpose(-1, -2) / 8.0, -1) @ v
    fused = torch.nn.functional.scaled_dot_product_attention
    yield "exact_attention/softmax_1024, fused", lambda: fused(q, k, v)

    # 32 rows of 4096 points of 16 complex lines, whose real and imaginary parts lie in turn: 512 lines that are transformed along the
    # points. cuFFT's result may come in another order of dimensions than it was given; ours has the same.
    points = torch.view_as_complex(random(32, 4096, 16, 2))
    yield "fft/lines_512", lambda: torch.fft.fft(points, dim=1).contiguous()
    lines = torch.view_as_complex(random(512, 4096, 2))
    yield "fft/lines_512, each line contiguous", lambda: torch.fft.fft(lines)

    for side in (512, 1024):
        yield matmul(f"square_{side}", side, side, columns=side)
    yield matmul("batch_64x49", 64, 49, 49, columns=49)
    yield matmul("batch_8x196", 8, 196, 196, columns=196)


def main():
    if not torch.cuda.is_available():
        print(f"gpu_peers: PyTorch {torch.__version__} sees no card", file=sys.stderr)
        return 3
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    rows, complete = {}, False
    try:
        for name, work in cases():
            seconds = median_seconds(work)
            if not math.isfinite(seconds):
                raise SystemExit(f"gpu_peers: {name} took {seconds} s by the events of CUDA")
            rows[name] = seconds
        complete = True
    except KeyboardInterrupt:
        pass
    about = {"torch": torch.__version__, "cuda": torch.version.cuda, "card": torch.cuda.get_device_name(0)}
    print(json.dumps({**about, "complete": complete, "median_seconds": rows}, indent=1, allow_nan=False))
    return 0 if complete else 130


if __name__ == "__main__":
    raise SystemExit(main())
