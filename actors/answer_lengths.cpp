#include "actors/answer_lengths.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "actors/actor_base.hpp"
#include "engine/base/error.hpp"

namespace sluice {

namespace {

/// More than any file that was written here.
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{64} * 1024;
constexpr std::size_t kMaxNameBytes = 64;

std::string last_error() {
  return std::error_code(errno, std::generic_category()).message();
}

/// Writes all of `text` to a new file and sees it to the disk; empty, or why not.
std::string write_new_file(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return last_error();
  std::string fault;
  while (!text.empty() && fault.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      fault = last_error();
    }
  }
  if (fault.empty() && ::fsync(file) != 0) fault = last_error();
  if (::close(file) != 0 && fault.empty()) fault = last_error();
  return fault;
}

/// FNV-1a, 64 bits: the same number on every machine.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace

AnswerLengths::AnswerLengths(Position configured, std::filesystem::path file,
                             std::chrono::milliseconds between_writes)
    : configured_(configured), file_(std::move(file)), between_writes_(between_writes) {
  if (!file_.empty()) load();
  in_force_.tokens = default_max_new_tokens(sketch_, configured_);
  in_force_.samples = sketch_.samples();
  in_force_.observed = in_force_.samples >= kSamplesToDecide;
  if (!file_.empty()) writer_ = std::thread([this] { keep_writing(); });
}

AnswerLengths::~AnswerLengths() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  woken_.notify_all();
  if (writer_.joinable()) writer_.join();
}

void AnswerLengths::observe(const LengthSketch::Ending& ending) {
  const std::lock_guard lock(mutex_);
  if (!sketch_.observe(ending)) return;
  changed_ = true;
  in_force_.tokens = default_max_new_tokens(sketch_, configured_);
  in_force_.samples = sketch_.samples();
  in_force_.observed = in_force_.samples >= kSamplesToDecide;
}

DefaultMaximum AnswerLengths::in_force() const {
  const std::lock_guard lock(mutex_);
  return in_force_;
}

// -- the file -------------------------------------------------------------------------------------

void AnswerLengths::load() {
  std::error_code error;
  const auto status = std::filesystem::status(file_, error);
  if (status.type() == std::filesystem::file_type::not_found) return;
  try {
    if (!std::filesystem::is_regular_file(status)) return warn("is no file that can be read");
    if (std::filesystem::file_size(file_) > kMaxFileBytes) return warn("is too large");
    std::ifstream in(file_, std::ios::binary);
    if (!in) return warn("can't be opened");
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    sketch_ = LengthSketch::parse(text);
  } catch (const std::exception& fault) {
    warn(fmt::format("can't be used: {}", fault.what()));
  }
}

void AnswerLengths::keep_writing() {
  std::unique_lock lock(mutex_);
  for (bool last = false; !last;) {
    last = woken_.wait_for(lock, between_writes_, [this] { return closing_; });
    if (!std::exchange(changed_, false)) continue;
    const std::string text = sketch_.serialise();
    lock.unlock();
    write(text);
    lock.lock();
  }
}

void AnswerLengths::write(const std::string& text) {
  std::error_code error;
  if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path(), error);
  // Named by process, so that two of them don't write into one file.
  const std::string fresh = fmt::format("{}.{}.new", file_.string(), ::getpid());
  std::string fault = write_new_file(fresh, text);
  if (fault.empty()) {
    std::filesystem::rename(fresh, file_, error);
    if (error) fault = error.message();
  }
  if (fault.empty()) return;
  std::filesystem::remove(fresh, error);
  if (!std::exchange(warned_, true)) warn("can't be written: " + fault);
}

void AnswerLengths::warn(const std::string& what) {
  log_warning(fmt::format("The record of answer lengths {} {}; the engine goes on without it.",
                          file_.string(), what));
}

std::filesystem::path lengths_file(const std::filesystem::path& state_dir, const ModelConfig& model,
                                   const Tokenizer& tokenizer) {
  if (state_dir.empty()) return {};
  std::string name = model.name.empty() ? model.architecture : model.name;
  name.resize(std::min(name.size(), kMaxNameBytes));
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '-' && c != '_') c = '-';
  }
  const std::string facts = fmt::format(
      "{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", model.name, model.architecture, model.num_layers,
      model.hidden_size, model.num_heads, model.num_kv_heads, model.head_dim, model.ffn_size,
      model.vocab_size, model.context_length, tokenizer.description());
  return state_dir / fmt::format("{}-{:016x}.lengths", name, hash_of(facts));
}

}  // namespace sluice
