#include "engine/backend/mapped_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "engine/base/error.hpp"

namespace sluice {

MappedMemory::MappedMemory(std::size_t bytes, std::string_view purpose) {
  if (bytes == 0) return;
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    throw Error(
        ErrorCode::kDoesNotFit,
        fmt::format("the system does not give {:.1f} MiB for {} ({}); use a smaller "
                    "context, fewer sequences or a smaller batch",
                    static_cast<double>(bytes) / (1024.0 * 1024.0), purpose, std::strerror(errno)));
  data_ = static_cast<std::byte*>(address);
  bytes_ = bytes;
}

void MappedMemory::use_large_pages() const {
#ifdef MADV_HUGEPAGE
  if (data_ != nullptr) ::madvise(data_, bytes_, MADV_HUGEPAGE);
#endif
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace sluice
