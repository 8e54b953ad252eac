// Products of a few rows with a matrix that is read once: bound by how fast memory gives it.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace memjax {

// As many as a register has: of wider vectors GCC keeps sums in memory.
#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
#elif defined(__AVX__)
constexpr int64_t kLanes = 8;
#else
constexpr int64_t kLanes = 4;
#endif
using Lanes = float __attribute__((vector_size(4 * kLanes)));

// From and to any address; compilers make one instruction of each.
inline Lanes Load(const float* at) {
  Lanes value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}
inline void Store(float* at, Lanes value) { __builtin_memcpy(at, &value, sizeof value); }

// Rows of the matrix that are read side by side. A core waits for memory less with several streams than with one.
constexpr int kStreams = 8;
constexpr int64_t kLine = 16;    // floats that memory gives at once
constexpr int64_t kAhead = 128;  // floats

// y[n] += sum over i of x[k] w[k, n], k = which(i) < rows; rows of w follow each other.
template <typename Which>
void AddProductOf(const Which& which, const float* x, const float* w, int64_t rows, int64_t columns, float* y) {
  const int64_t step = rows / kStreams;
  for (int64_t row = 0; row < step; ++row) {
    const float* from[kStreams];
    float times[kStreams];
    for (int stream = 0; stream < kStreams; ++stream) {
      const int64_t k = which(row + stream * step);
      from[stream] = w + k * columns, times[stream] = x[k];
    }
    int64_t column = 0;
    for (; column + kLine <= columns; column += kLine) {
      Lanes sums[kLine / kLanes];
      for (int64_t i = 0; i < kLine / kLanes; ++i) sums[i] = Load(y + column + i * kLanes);
      for (int stream = 0; stream < kStreams; ++stream) {
        const float* at = from[stream] + column;
        __builtin_prefetch(at + kAhead);
        for (int64_t i = 0; i < kLine / kLanes; ++i) sums[i] += times[stream] * Load(at + i * kLanes);
      }
      for (int64_t i = 0; i < kLine / kLanes; ++i) Store(y + column + i * kLanes, sums[i]);
    }
    for (; column < columns; ++column)
      for (int stream = 0; stream < kStreams; ++stream) y[column] += times[stream] * from[stream][column];
  }
  for (int64_t row = kStreams * step; row < rows; ++row) {
    const int64_t k = which(row);
    for (int64_t column = 0; column < columns; ++column) y[column] += x[k] * w[k * columns + column];
  }
}

// The same of all rows.
inline void AddProduct(const float* x, const float* w, int64_t rows, int64_t columns, float* y) {
  AddProductOf([](int64_t row) { return row; }, x, w, rows, columns, y);
}

// The sum of a vector's numbers.
inline float Sum(Lanes x) {
  float sum = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) sum += x[lane];
  return sum;
}

// y[n] += sum over k of x[k] w[n, k]; rows of w follow each other.
inline void AddDots(const float* x, const float* w, int64_t rows, int64_t length, float* y) {
  const int64_t step = rows / kStreams, whole = length / kLanes * kLanes;
  for (int64_t row = 0; row < step; ++row) {
    Lanes sums[kStreams] = {};
    for (int64_t at = 0; at < whole; at += kLanes)
      for (int stream = 0; stream < kStreams; ++stream) {
        const float* from = w + (row + stream * step) * length + at;
        if (at % kLine == 0) __builtin_prefetch(from + kAhead);
        sums[stream] += Load(x + at) * Load(from);
      }
    for (int stream = 0; stream < kStreams; ++stream) y[row + stream * step] += Sum(sums[stream]);
  }
  for (int64_t row = kStreams * step; row < rows; ++row) {
    Lanes sums = {};
    for (int64_t at = 0; at < whole; at += kLanes) sums += Load(x + at) * Load(w + row * length + at);
    y[row] += Sum(sums);
  }
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t at = whole; at < length; ++at) y[row] += x[at] * w[row * length + at];
}

// e^x to a few units in the last place; 0 below -87, where it leaves float32's normal range. For x <= 88.
inline Lanes Exp(Lanes x) {
  const Lanes clamped = x < -87.0f ? Lanes{} - 87.0f : x;
  // x = n log 2 + r, |r| <= log 2 / 2; adding and subtracting 1.5 * 2^23 rounds to a whole number.
  const float rounder = 12582912.0f;
  const Lanes n = (clamped * 1.44269504f + rounder) - rounder;
  const Lanes r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  // Taylor's series to r^7: what is left out is below 6e-9.
  Lanes p = Lanes{} + 1.0f / 5040;
  for (const float coefficient : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) p = p * r + coefficient;
  using Whole = int32_t __attribute__((vector_size(4 * kLanes)));
  const Whole exponent = (__builtin_convertvector(n, Whole) + 127) << 23;
  const Lanes power = p * (Lanes)exponent;  // of vectors, a cast is of bits
  return x < -87.0f ? Lanes{} : power;
}

}  // namespace memjax
