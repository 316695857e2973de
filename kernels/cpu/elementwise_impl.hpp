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

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias.
template <class S>
void layer_norm(const float* x, const float* weight, const float* bias, float epsilon,
                std::size_t n, float* y) {
  using Vec = typename S::Vec;
  Vec total = S::zero();
  for_vectors<S>(
      n, [&](std::size_t i) { total = S::add(total, S::load(x + i)); },
      [&](std::size_t i, std::size_t rest) { total = S::add(total, S::load_n(x + i, rest)); });
  const Vec mean = S::set1(S::reduce_add(total) / static_cast<float>(n));
  Vec squares = S::zero();
  for_vectors<S>(
      n,
      [&](std::size_t i) {
        const Vec v = S::sub(S::load(x + i), mean);
        squares = S::fma(v, v, squares);
      },
      [&](std::size_t i, std::size_t rest) {
        float part[S::kWidth];
        S::store(part, S::sub(S::load_n(x + i, rest), mean));
        const Vec v = S::load_n(part, rest);  // lanes behind the end count for nothing
        squares = S::fma(v, v, squares);
      });
  const float variance = S::reduce_add(squares) / static_cast<float>(n);
  const Vec factor = S::set1(1.0F / __builtin_sqrtf(variance + epsilon));
  const auto scaled = [&](Vec v, Vec w) { return S::mul(S::mul(S::sub(v, mean), factor), w); };
  for_vectors<S>(
      n,
      [&](std::size_t i) {
        const Vec v = scaled(S::load(x + i), S::load(weight + i));
        S::store(y + i, bias == nullptr ? v : S::add(v, S::load(bias + i)));
      },
      [&](std::size_t i, std::size_t rest) {
        const Vec v = scaled(S::load_n(x + i, rest), S::load_n(weight + i, rest));
        S::store_n(y + i, bias == nullptr ? v : S::add(v, S::load_n(bias + i, rest)), rest);
      });
}

/// y[i] = f(y[i]).
template <class S, class F>
void map(float* y, std::size_t n, const F& f) {
  for_vectors<S>(
      n, [&](std::size_t i) { S::store(y + i, f(S::load(y + i))); },
      [&](std::size_t i, std::size_t rest) { S::store_n(y + i, f(S::load_n(y + i, rest)), rest); });
}

/// y[i] = f(y[i], x[i]).
template <class S, class F>
void map2(float* y, const float* x, std::size_t n, const F& f) {
  for_vectors<S>(
      n, [&](std::size_t i) { S::store(y + i, f(S::load(y + i), S::load(x + i))); },
      [&](std::size_t i, std::size_t rest) {
        S::store_n(y + i, f(S::load_n(y + i, rest), S::load_n(x + i, rest)), rest);
      });
}

/// x / (1 + exp(-slope_x)): x times the sigmoid of another number.
template <class S>
typename S::Vec times_sigmoid(typename S::Vec x, typename S::Vec slope_x) {
  return S::div(x, S::add(S::set1(1.0F), exp<S>(S::sub(S::zero(), slope_x))));
}

/// x / 2 (1 + tanh u) = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class S>
typename S::Vec gelu_of(typename S::Vec x) {
  using Vec = typename S::Vec;
  const Vec cube = S::mul(S::mul(x, x), x);
  const Vec inner = S::fma(S::set1(0.044715F), cube, x);
  return times_sigmoid<S>(x, S::mul(S::set1(1.5957691216F), inner));
}

template <class S>
void silu_multiply(float* gate, const float* up, std::size_t n) {
  using Vec = typename S::Vec;
  map2<S>(gate, up, n, [](Vec g, Vec u) { return S::mul(times_sigmoid<S>(g, g), u); });
}

template <class S>
void silu(float* y, std::size_t n) {
  map<S>(y, n, [](typename S::Vec v) { return times_sigmoid<S>(v, v); });
}

template <class S>
void gelu_multiply(float* gate, const float* up, std::size_t n) {
  using Vec = typename S::Vec;
  map2<S>(gate, up, n, [](Vec g, Vec u) { return S::mul(gelu_of<S>(g), u); });
}

template <class S>
void gelu(float* y, std::size_t n) {
  map<S>(y, n, [](typename S::Vec v) { return gelu_of<S>(v); });
}

template <class S>
void clamped_swish_multiply(float* gate, const float* up, std::size_t n) {
  using Vec = typename S::Vec;
  const Vec limit = S::set1(7.0F);
  map2<S>(gate, up, n, [&](Vec g, Vec u) {
    const Vec capped = S::min(limit, g);  // the second operand wins when it is not a number
    const Vec within = S::max(S::set1(-7.0F), S::min(limit, u));
    const Vec swish = times_sigmoid<S>(capped, S::mul(S::set1(1.702F), capped));
    return S::mul(swish, S::add(within, S::set1(1.0F)));
  });
}

template <class S>
void scale(float* y, float factor, std::size_t n) {
  const typename S::Vec all = S::set1(factor);
  map<S>(y, n, [&](typename S::Vec v) { return S::mul(v, all); });
}

template <class S>
void add_scaled(float* y, const float* x, float factor, std::size_t n) {
  using Vec = typename S::Vec;
  const Vec all = S::set1(factor);
  map2<S>(y, x, n, [&](Vec a, Vec b) { return S::fma(all, b, a); });
}

/// cap * tanh(x / cap); tanh y = 1 - 2 / (e^2y + 1).
template <class S>
typename S::Vec soft_cap(typename S::Vec x, typename S::Vec cap) {
  using Vec = typename S::Vec;
  const Vec one = S::set1(1.0F);
  const Vec two = S::set1(2.0F);
  const Vec e = exp<S>(S::mul(two, S::div(x, cap)));
  return S::mul(cap, S::sub(one, S::div(two, S::add(e, one))));
}

template <class S>
void soft_cap_row(float* y, float cap, std::size_t n) {
  const typename S::Vec all = S::set1(cap);
  map<S>(y, n, [&](typename S::Vec v) { return soft_cap<S>(v, all); });
}

template <class S>
void add_to(float* y, const float* x, std::size_t n) {
  using Vec = typename S::Vec;
  map2<S>(y, x, n, [](Vec a, Vec b) { return S::add(a, b); });
}

}  // namespace sluice::kernels
