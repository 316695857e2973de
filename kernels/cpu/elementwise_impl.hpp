// Norms, gates and sums of rows, written once for every instruction set.
#pragma once

#include <cstddef>

namespace sluice::kernels {

/// e^x with a relative error below 2e-7; keeps "not a number"; 1e-38 for everything below -87.3,
/// 2e38 above 88.3. x = n ln 2 + r with whole n and |r| <= ln 2 / 2; e^r by its Taylor series to
/// r^7 / 7!, whose remainder is below 6e-9.
template <class S>
typename S::Vec exp(typename S::Vec x) {
  using Vec = typename S::Vec;
  const Vec clamped = S::min(S::set1(88.3F), S::max(S::set1(-87.3F), x));
  const Vec n = S::round(S::mul(clamped, S::set1(1.44269504F)));
  // ln 2 in two parts; n times the first is exact.
  Vec r = S::fma(n, S::set1(-0.693359375F), clamped);
  r = S::fma(n, S::set1(2.12194440e-4F), r);
  Vec p = S::set1(1.0F / 5040.0F);
  p = S::fma(p, r, S::set1(1.0F / 720.0F));
  p = S::fma(p, r, S::set1(1.0F / 120.0F));
  p = S::fma(p, r, S::set1(1.0F / 24.0F));
  p = S::fma(p, r, S::set1(1.0F / 6.0F));
  p = S::fma(p, r, S::set1(0.5F));
  p = S::fma(p, r, S::set1(1.0F));
  p = S::fma(p, r, S::set1(1.0F));
  return S::mul(p, S::exp2_whole(n));
}

/// Calls whole(i) for each whole vector of [0, n), then part(i, rest) for what is left.
template <class S, class Whole, class Part>
void for_vectors(std::size_t n, const Whole& whole, const Part& part) {
  std::size_t i = 0;
  for (; i + S::kWidth <= n; i += S::kWidth) whole(i);
  if (i < n) part(i, n - i);
}

template <class S>
void rms_norm(const float* x, const float* weight, float epsilon, std::size_t n, float* y) {
  using Vec = typename S::Vec;
  Vec squares = S::zero();
  for_vectors<S>(
      n,
      [&](std::size_t i) {
        const Vec v = S::load(x + i);
        squares = S::fma(v, v, squares);
      },
      [&](std::size_t i, std::size_t rest) {
        const Vec v = S::load_n(x + i, rest);
        squares = S::fma(v, v, squares);
      });
  const float mean = S::reduce_add(squares) / static_cast<float>(n);
  const Vec factor = S::set1(1.0F / __builtin_sqrtf(mean + epsilon));
  for_vectors<S>(
      n,
      [&](std::size_t i) {
        S::store(y + i, S::mul(S::mul(S::load(x + i), factor), S::load(weight + i)));
      },
      [&](std::size_t i, std::size_t rest) {
        const Vec scaled = S::mul(S::load_n(x + i, rest), factor);
        S::store_n(y + i, S::mul(scaled, S::load_n(weight + i, rest)), rest);
      });
}

template <class S>
void silu_multiply(float* gate, const float* up, std::size_t n) {
  using Vec = typename S::Vec;
  const auto silu_times = [](Vec g, Vec u) {
    const Vec one = S::set1(1.0F);
    const Vec sigmoid_inverse = S::add(one, exp<S>(S::sub(S::zero(), g)));
    return S::mul(S::div(g, sigmoid_inverse), u);
  };
  for_vectors<S>(
      n, [&](std::size_t i) { S::store(gate + i, silu_times(S::load(gate + i), S::load(up + i))); },
      [&](std::size_t i, std::size_t rest) {
        S::store_n(gate + i, silu_times(S::load_n(gate + i, rest), S::load_n(up + i, rest)), rest);
      });
}

template <class S>
void add_to(float* y, const float* x, std::size_t n) {
  for_vectors<S>(
      n, [&](std::size_t i) { S::store(y + i, S::add(S::load(y + i), S::load(x + i))); },
      [&](std::size_t i, std::size_t rest) {
        S::store_n(y + i, S::add(S::load_n(y + i, rest), S::load_n(x + i, rest)), rest);
      });
}

}  // namespace sluice::kernels
