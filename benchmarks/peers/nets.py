"""The models of the zoo in plain PyTorch, with PyTorch's names: for benchmarks and for tests."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Mlp(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in zip(sizes, sizes[1:]))

    def forward(self, values):
        values = values.flatten(1)
        for layer in self.layers[:-1]:
            values = F.relu(layer(values))
        return self.layers[-1](values)


class Cnn(nn.Module):
    def __init__(self, pixels, classes):
        """`pixels` are those of an image that are left after both convolutions and the pooling."""
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(64 * pixels, 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, values):
        values = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(values)))), 2)
        return self.fc2(F.relu(self.fc1(values.flatten(1))))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        else:
            self.downsample = None

    def forward(self, values):
        past = values if self.downsample is None else self.downsample(values)
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(values))))) + past)


class ResNet18(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        inputs = width
        self.conv1 = nn.Conv2d(3, inputs, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inputs)
        for layer in range(4):
            outputs = width << layer
            blocks = [BasicBlock(inputs, outputs, 2 if layer > 0 else 1), BasicBlock(outputs, outputs, 1)]
            setattr(self, f"layer{layer + 1}", nn.Sequential(*blocks))
            inputs = outputs
        self.fc = nn.Linear(inputs, classes)

    def forward(self, values):
        values = F.relu(self.bn1(self.conv1(values)))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            values = layer(values)
        return self.fc(F.adaptive_avg_pool2d(values, 1).flatten(1))


class Lstm(nn.Module):
    def __init__(self, vocabulary, width, hidden, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, values):
        parts = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(values).chunk(3, -1)]
        return self.c_proj(F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, values):
        return self.c_proj(F.gelu(self.c_fc(values), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = FeedForward(width)

    def forward(self, values):
        values = values + self.attn(self.ln_1(values))
        return values + self.mlp(self.ln_2(values))


class Gpt(nn.Module):
    def __init__(self, vocabulary, positions, width, heads, layers, tied=True):
        """A head that is not tied has weights of its own, beside those of the embedding."""
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(positions, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = None if tied else nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        values = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            values = block(values)
        values = self.ln_f(values)
        return F.linear(values, self.wte.weight) if self.lm_head is None else self.lm_head(values)
