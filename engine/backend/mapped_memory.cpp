#include "engine/backend/mapped_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

MappedMemory MappedMemory::in_file(std::size_t bytes, const std::filesystem::path& path) {
  MappedMemory memory;
  if (bytes == 0) return memory;
  const auto fail = [&](ErrorCode code, const char* what, int reason) {
    return Error(code,
                 fmt::format("the swap file {} can't be {} ({}); name a place with {:.1f} MiB "
                             "to spare or use less swap space",
                             path.string(), what, std::strerror(reason),
                             static_cast<double>(bytes) / (1024.0 * 1024.0)));
  };
  // Never somebody else's file.
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) throw fail(ErrorCode::kIo, "made", errno);
  ::unlink(path.c_str());
  // Without room set aside, a full disk would end the process in the middle of a step.
  const int reason = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* address = MAP_FAILED;
  if (reason == 0) {
    address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const int map_reason = errno;
  ::close(file);
  if (reason != 0) throw fail(ErrorCode::kDoesNotFit, "filled", reason);
  if (address == MAP_FAILED) throw fail(ErrorCode::kIo, "mapped", map_reason);
  memory.data_ = static_cast<std::byte*>(address);
  memory.bytes_ = bytes;
  return memory;
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace sluice
