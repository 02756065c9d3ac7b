"""What PyTorch takes for the benchmark's main rows on an NVIDIA card: cuBLAS, cuFFT, and Laplacian attention by cdist and products.

Prints JSON: medians in seconds by CUDA events, after warming up, in f32 without TF32.
"""

import json
import statistics

import torch

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def median_seconds(work, least=10, most_seconds=2.0):
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


def laplacian_attention(heads=8, tokens=16384, width=32, landmarks=49, bandwidth=4.0):
    """Kernel matrices by cdist, a Newton–Schulz inverse by products, and the output, as eager PyTorch code writes it."""
    q, k, v = (random(heads, tokens, width) for _ in range(3))
    pooled = k[:, : landmarks * (tokens // landmarks)].reshape(heads, landmarks, -1, width).mean(2)
    eye = torch.eye(landmarks, device="cuda")

    def run():
        rows = torch.exp(-torch.cdist(q, pooled, p=1) / bandwidth)
        columns = torch.exp(-torch.cdist(pooled, k, p=1) / bandwidth)
        middle = torch.exp(-torch.cdist(pooled, pooled, p=1) / bandwidth) + 1e-3 * eye
        inverse = 2 * eye / (middle.abs().sum(-1).amax(-1)[:, None, None] + 1e-3)
        for _ in range(12):
            inverse = 2 * inverse - inverse @ middle @ inverse
        return rows @ (inverse @ (columns @ v))

    return run


def main():
    rows = {}
    for side in (256, 512, 1024):
        a, b = random(side, side), random(side, side)
        rows[f"matmul/square_{side}"] = median_seconds(lambda a=a, b=b: a @ b)
    for name, batch, side in (("batch_64x49", 64, 49), ("batch_8x196", 8, 196)):
        a, b = random(batch, side, side), random(batch, side, side)
        rows[f"matmul/{name}"] = median_seconds(lambda a=a, b=b: a @ b)
    lines = torch.complex(random(512, 4096), random(512, 4096))
    rows["fft/lines_512"] = median_seconds(lambda: torch.fft.fft(lines))
    q, k = random(8, 3136, 32), random(8, 49, 32)
    rows["kernel_matrix/tokens_3136x49"] = median_seconds(lambda: torch.exp(-torch.cdist(q, k, p=1) / 4.0))
    rows["nystrom_attention/tokens_16384"] = median_seconds(laplacian_attention())
    q, k, v = (random(1, 8, 1024, 64) for _ in range(3))
    rows["exact_attention/softmax_1024"] = median_seconds(lambda: torch.softmax(q @ k.transpose(-1, -2) / 8.0, -1) @ v)
    about = {"torch": torch.__version__, "cuda": torch.version.cuda, "card": torch.cuda.get_device_name(0)}
    print(json.dumps({**about, "median_seconds": rows}, indent=1))


main()
