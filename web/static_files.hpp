// The files of the page: from the binary, or from a folder while developing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "web/http_message.hpp"

namespace sluice::web {

class StaticFiles {
 public:
  /// Serves the embedded files, or those of `folder` when it is not empty, read anew at each
  /// request (libraries that it has not come from the binary). Throws Error(kNotFound) when the
  /// folder is none.
  explicit StaticFiles(const std::filesystem::path& folder);

  /// Answers GET and HEAD ("/" is index.html). 200 with an ETag, 304 when the client has it, 404.
  HttpResponse get(const HttpRequest& request) const;

 private:
  HttpResponse from_binary(std::string_view path, std::string_view known_tag) const;
  HttpResponse from_folder(std::string_view path, std::string_view known_tag) const;

  std::filesystem::path folder_;  ///< canonical, or empty
};

/// By the extension of the name; "application/octet-stream" when it is unknown.
std::string_view content_type_of(std::string_view path);

/// A path below a root, as a URL names it: no empty, ".", ".." or hidden segment, no backslash.
bool is_safe_relative_path(std::string_view path);

/// An entity tag with its quotes, made of the bytes alone.
std::string entity_tag(std::string_view bytes);

/// Whether an If-None-Match header names the tag (weak comparison, lists, "*").
bool matches_tag(std::string_view if_none_match, std::string_view tag);

}  // namespace sluice::web
