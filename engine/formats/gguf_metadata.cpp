#include "engine/formats/gguf_metadata.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

/// Value types of the format, by number.
enum class ValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// Smallest number of bytes that one entry, and one string, takes in the file.
constexpr std::uint64_t kMinEntryBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinStringBytes = 8;

/// Reads one entry after the other; knows the key for messages.
class MetadataReader {
 public:
  MetadataReader(ByteCursor& cursor, const std::string& path) : cursor_(cursor), path_(path) {}

  std::pair<std::string, MetadataValue> read_entry() {
    where_ = "a metadata key";
    std::string key = read_string();
    where_ = "the metadata value of " + quote_text(key);
    const auto type = static_cast<ValueType>(cursor_.read<std::uint32_t>(where_));
    MetadataValue value = read_value(type);
    return {std::move(key), std::move(value)};
  }

 private:
  std::string read_string() {
    const auto length = cursor_.read<std::uint64_t>(where_);
    return std::string(cursor_.read_text(length, where_));
  }

  template <class Stored>
  std::int64_t read_integer() {
    return static_cast<std::int64_t>(cursor_.read<Stored>(where_));
  }

  MetadataValue read_u64() {
    const auto value = cursor_.read<std::uint64_t>(where_);
    if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
    return value;
  }

  bool read_bool() { return cursor_.read<std::uint8_t>(where_) != 0; }

  MetadataValue read_value(ValueType type) {
    switch (type) {
      case ValueType::kU8:
        return read_integer<std::uint8_t>();
      case ValueType::kI8:
        return read_integer<std::int8_t>();
      case ValueType::kU16:
        return read_integer<std::uint16_t>();
      case ValueType::kI16:
        return read_integer<std::int16_t>();
      case ValueType::kU32:
        return read_integer<std::uint32_t>();
      case ValueType::kI32:
        return read_integer<std::int32_t>();
      case ValueType::kF32:
        return static_cast<double>(cursor_.read<float>(where_));
      case ValueType::kBool:
        return read_bool();
      case ValueType::kString:
        return read_string();
      case ValueType::kArray:
        return read_array();
      case ValueType::kU64:
        return read_u64();
      case ValueType::kI64:
        return read_integer<std::int64_t>();
      case ValueType::kF64:
        return cursor_.read<double>(where_);
    }
    unknown_type(type);
  }

  MetadataValue read_array() {
    const auto type = static_cast<ValueType>(cursor_.read<std::uint32_t>(where_));
    const auto count = cursor_.read<std::uint64_t>(where_);
    switch (type) {
      case ValueType::kU8:
        return read_integers<std::uint8_t>(count);
      case ValueType::kI8:
        return read_integers<std::int8_t>(count);
      case ValueType::kU16:
        return read_integers<std::uint16_t>(count);
      case ValueType::kI16:
        return read_integers<std::int16_t>(count);
      case ValueType::kU32:
        return read_integers<std::uint32_t>(count);
      case ValueType::kI32:
        return read_integers<std::int32_t>(count);
      case ValueType::kU64:
        return read_integers<std::uint64_t>(count);
      case ValueType::kI64:
        return read_integers<std::int64_t>(count);
      case ValueType::kF32:
        return read_numbers<float>(count);
      case ValueType::kF64:
        return read_numbers<double>(count);
      case ValueType::kBool:
        return read_bools(count);
      case ValueType::kString:
        return read_strings(count);
      case ValueType::kArray:
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("{}: {} is an array of arrays, which no known model uses; the file "
                                "is probably damaged.",
                                path_, where_));
    }
    unknown_type(type);
  }

  /// Room for `count` items of at least `item_bytes` each, or an error. Never overflows.
  std::size_t checked_count(std::uint64_t count, std::uint64_t item_bytes) {
    if (count > cursor_.remaining() / item_bytes) {
      cursor_.require(std::numeric_limits<std::uint64_t>::max(), where_);
    }
    return static_cast<std::size_t>(count);
  }

  template <class Stored>
  std::vector<std::int64_t> read_integers(std::uint64_t count) {
    std::vector<std::int64_t> values;
    values.reserve(checked_count(count, sizeof(Stored)));
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto value = cursor_.read<Stored>(where_);
      if (!std::in_range<std::int64_t>(value)) {
        throw Error(ErrorCode::kCorrupt,
                    fmt::format("{}: {} holds an integer beyond 63 bits.", path_, where_));
      }
      values.push_back(static_cast<std::int64_t>(value));
    }
    return values;
  }

  template <class Stored>
  std::vector<double> read_numbers(std::uint64_t count) {
    std::vector<double> values;
    values.reserve(checked_count(count, sizeof(Stored)));
    for (std::uint64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<double>(cursor_.read<Stored>(where_)));
    }
    return values;
  }

  std::vector<bool> read_bools(std::uint64_t count) {
    std::vector<bool> values;
    values.reserve(checked_count(count, 1));
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(read_bool());
    return values;
  }

  std::vector<std::string> read_strings(std::uint64_t count) {
    std::vector<std::string> values;
    values.reserve(checked_count(count, kMinStringBytes));
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(read_string());
    return values;
  }

  [[noreturn]] void unknown_type(ValueType type) const {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: {} has the unknown type number {}; the file is damaged or newer "
                            "than this build.",
                            path_, where_, static_cast<std::uint32_t>(type)));
  }

  ByteCursor& cursor_;
  const std::string& path_;
  std::string where_;  // what is being read, for messages
};

}  // namespace

MetadataMap read_gguf_metadata(ByteCursor& cursor, std::uint64_t num_entries,
                               const std::string& path) {
  if (num_entries > cursor.remaining() / kMinEntryBytes) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: the header announces {} metadata entries, more than the file can "
                            "hold; it is cut short or damaged.",
                            path, num_entries));
  }
  MetadataMap metadata;
  MetadataReader reader(cursor, path);
  for (std::uint64_t i = 0; i < num_entries; ++i) {
    auto [key, value] = reader.read_entry();
    const auto [place, inserted] = metadata.try_emplace(std::move(key), std::move(value));
    if (!inserted) {
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("{}: the metadata key {} comes twice; the file is damaged or was "
                              "written by a faulty converter.",
                              path, quote_text(place->first)));
    }
  }
  return metadata;
}

}  // namespace sluice
