# title: convolution as an implicit matrix product
# problem: convolution
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def conv2d_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, C, H, W, CO, OH, OW, total, stride,
    KSIZE: tl.constexpr, PAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    out_c = tl.program_id(1) * BN + tl.arange(0, BN)
    image = pixel // (OH * OW)
    oh = pixel // OW % OH
    ow = pixel % OW
    depth = C * KSIZE * KSIZE
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, depth, BK):
        k = k0 + tl.arange(0, BK)
        c = k // (KSIZE * KSIZE)
        kh = k // KSIZE % KSIZE
        kw = k % KSIZE
        ih = oh[:, None] * stride + kh[None, :] - PAD
        iw = ow[:, None] * stride + kw[None, :] - PAD
        inside = (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W) & (pixel < total)[:, None] & (k < depth)[None, :]
        x = tl.load(x_ptr + ((image[:, None] * C + c[None, :]) * H + ih) * W + iw, mask=inside, other=0.0)
        w = tl.load(
            w_ptr + out_c[None, :] * depth + k[:, None], mask=(out_c < CO)[None, :] & (k < depth)[:, None], other=0.0
        )
        acc += tl.dot(x, w, input_precision="ieee")
    acc += tl.load(b_ptr + out_c, mask=out_c < CO, other=0.0)[None, :]
    acc = tl.maximum(acc, 0.0)
    where = ((image[:, None] * CO + out_c[None, :]) * OH + oh[:, None]) * OW + ow[:, None]
    tl.store(y_ptr + where, acc, mask=(pixel < total)[:, None] & (out_c < CO)[None, :])


class ModelNew(torch.nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1)

    def forward(self, x):
        conv = self.conv
        n, c, h, w = x.shape
        stride = conv.stride[0]
        oh, ow = (h - 1) // stride + 1, (w - 1) // stride + 1
        y = torch.empty((n, conv.out_channels, oh, ow), device=x.device, dtype=x.dtype)
        total = n * oh * ow
        conv2d_kernel[(triton.cdiv(total, 64), triton.cdiv(conv.out_channels, 16))](
            x, conv.weight, conv.bias, y, c, h, w, conv.out_channels, oh, ow, total, stride,
            KSIZE=3, PAD=1, BM=64, BN=16, BK=16,
        )  # fmt: skip
        return y
