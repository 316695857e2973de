// Brings a decoder's weights into the layout of the fast kernels, once, at load.
#pragma once

#include <cstddef>

#include "engine/backend/mapped_memory.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/decoder_weights.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace sluice {

/// Packs every matrix whose encoding has a packed form with kernels for it and points its `packed`
/// into the memory returned, which the caller keeps as long as the weights. The file's pages are
/// let go, so that the weights are in memory once; the embedding table is read from them row by
/// row. Sets weights.bytes to what is kept. Throws Error(kDoesNotFit).
MappedMemory pack_weights(DecoderWeights& weights, const kernels::KernelTable& kernels,
                          kernels::ThreadPool& threads);

/// Bytes of weights that a backend with these kernels keeps: packed ones, others as in the file.
/// Without kernels: all as in the file.
std::size_t resident_weights_bytes(const ModelSource& source, const kernels::KernelTable* kernels);

/// The same for the kernels that are used without being told.
std::size_t resident_weights_bytes(const ModelSource& source, bool precise);

}  // namespace sluice
