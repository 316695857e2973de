#include "web/static_files.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "engine/base/error.hpp"
#include "web/embedded_files.hpp"

namespace sluice::web {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxFileBytes = 64U << 20U;  // a page has no business with more

HttpResponse not_found(std::string_view path) {
  return error_response(404, "not_found", fmt::format("There is nothing at {}.", path));
}

/// Headers of 200 and 304 alike. The browser asks each time and mostly gets a 304.
HttpResponse file_response(std::string_view path, std::string_view bytes,
                           std::string_view known_tag) {
  HttpResponse response;
  const std::string tag = entity_tag(bytes);
  response.headers = {{"ETag", tag}, {"Cache-Control", "no-cache"}};
  response.content_type = std::string(content_type_of(path));
  if (matches_tag(known_tag, tag)) response.status = 304;
  return response;
}

std::optional<std::string> read_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMaxFileBytes || error) {
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool is_below(const fs::path& path, const fs::path& root) {
  const fs::path relative = path.lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

StaticFiles::StaticFiles(const fs::path& folder) {
  if (folder.empty()) return;
  std::error_code error;
  folder_ = fs::canonical(folder, error);
  if (error || !fs::is_directory(folder_, error)) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("There is no folder \"{}\" to serve the page from; leave the setting "
                            "out to serve the built-in page.",
                            folder.string()));
  }
}

HttpResponse StaticFiles::get(const HttpRequest& request) const {
  std::string_view path = std::string_view(request.path).substr(1);
  if (path.empty()) path = "index.html";
  if (!is_safe_relative_path(path)) return not_found(request.path);
  const std::string_view known_tag = request.header("if-none-match");
  return folder_.empty() ? from_binary(path, known_tag) : from_folder(path, known_tag);
}

HttpResponse StaticFiles::from_binary(std::string_view path, std::string_view known_tag) const {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path != path) continue;
    HttpResponse response = file_response(path, file.bytes, known_tag);
    if (response.status == 200) response.fixed_body = file.bytes;
    return response;
  }
  return not_found(fmt::format("/{}", path));
}

HttpResponse StaticFiles::from_folder(std::string_view path, std::string_view known_tag) const {
  // A symbolic link may not lead out of the folder.
  std::error_code error;
  const fs::path target = fs::canonical(folder_ / fs::path(path), error);
  // The libraries are not among the page's sources.
  if (error && path.starts_with("vendor/")) return from_binary(path, known_tag);
  if (error || !is_below(target, folder_)) return not_found(fmt::format("/{}", path));
  auto bytes = read_file(target);
  if (!bytes) return not_found(fmt::format("/{}", path));
  HttpResponse response = file_response(path, *bytes, known_tag);
  if (response.status == 200) response.body = std::move(*bytes);
  return response;
}

std::string_view content_type_of(std::string_view path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".mjs", "text/javascript; charset=utf-8"},
      {".json", "application/json"},
      {".webmanifest", "application/manifest+json"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".ico", "image/x-icon"},
      {".woff2", "font/woff2"},
      {".txt", "text/plain; charset=utf-8"},
  }};
  for (const auto& [extension, type] : kTypes) {
    if (path.ends_with(extension)) return type;
  }
  return "application/octet-stream";
}

bool is_safe_relative_path(std::string_view path) {
  if (path.find('\\') != std::string_view::npos || path.find('\0') != std::string_view::npos) {
    return false;
  }
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view segment = path.substr(0, slash);
    if (segment.empty() || segment.starts_with('.')) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::string entity_tag(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a, 64 bits
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211U;
  }
  return fmt::format("\"{:016x}-{:x}\"", hash, bytes.size());
}

bool matches_tag(std::string_view if_none_match, std::string_view tag) {
  while (!if_none_match.empty()) {
    const std::size_t comma = if_none_match.find(',');
    std::string_view candidate = if_none_match.substr(0, comma);
    while (candidate.starts_with(' ')) candidate.remove_prefix(1);
    while (candidate.ends_with(' ')) candidate.remove_suffix(1);
    if (candidate.starts_with("W/")) candidate.remove_prefix(2);
    if (candidate == "*" || candidate == tag) return true;
    if (comma == std::string_view::npos) break;
    if_none_match.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace sluice::web
