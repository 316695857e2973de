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
  KernelTable table;
  table.isa = S::kIsa;
  table.matmul = matmul<S>;
  table.rms_norm = rms_norm<S>;
  table.layer_norm = layer_norm<S>;
  table.silu = silu<S>;
  table.silu_multiply = silu_multiply<S>;
  table.gelu = gelu<S>;
  table.gelu_multiply = gelu_multiply<S>;
  table.clamped_swish_multiply = clamped_swish_multiply<S>;
  table.scale = scale<S>;
  table.add_scaled = add_scaled<S>;
  table.soft_cap = soft_cap_row<S>;
  table.add = add_to<S>;
  table.write_kv = write_kv<S>;
  table.attention = attention<S>;
  table.attention_part = attention_part<S>;
  table.attention_merge = attention_merge<S>;
  return table;
}

}  // namespace sluice::kernels
