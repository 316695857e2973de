// Builds the function table of one instruction set; included by one file per set.
//
// Everything in the _impl headers is a template on the instruction set or has internal linkage,
// and calls nothing of the standard library that could be emitted as a shared inline function:
// the linker must not take code compiled for one processor for the whole program.
#pragma once

#include "kernels/cpu/attention_impl.hpp"
#include "kernels/cpu/elementwise_impl.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/kv_storage_impl.hpp"
#include "kernels/cpu/matmul_impl.hpp"

namespace sluice::kernels {

template <class S>
constexpr KernelTable make_table() {
  return {S::kIsa, matmul<S>, rms_norm<S>, silu_multiply<S>, add_to<S>, write_kv<S>, attention<S>};
}

}  // namespace sluice::kernels
