#include "engine/kv/prefix_index.hpp"

#include <catch2/catch.hpp>
#include <random>

namespace sluice {

TEST_CASE("contents are told apart when every hash collides") {
  for (const std::uint64_t mask : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    PrefixIndex index(7, mask);
    std::mt19937 random(1);
    const ContentId root = index.root("");
    index.hold(root);
    // A path of three contents for each of 100 pairs of tokens, each with its own block.
    std::vector<std::vector<ContentId>> paths;
    for (TokenId i = 0; i < 100; ++i) {
      std::vector<ContentId> path;
      ContentId content = root;
      for (TokenId depth = 0; depth < 3; ++depth) {
        const std::vector<TokenId> tokens{i, depth % 2};
        content = index.find_or_add(content, tokens);
        index.set_block(content, 3 * i + depth);
        path.push_back(content);
      }
      paths.push_back(path);
    }
    for (TokenId i = 0; i < 100; ++i) {
      ContentId content = root;
      for (TokenId depth = 0; depth < 3; ++depth) {
        content = index.find(content, std::vector<TokenId>{i, depth % 2});
        REQUIRE(content == paths[static_cast<std::size_t>(i)][static_cast<std::size_t>(depth)]);
        CHECK(index.block(content) == 3 * i + depth);
      }
      CHECK(index.find(content, std::vector<TokenId>{i, 1}) == PrefixIndex::kNoContent);
    }
    for (const auto& path : paths) {
      for (const ContentId content : path) index.clear_block(content);
    }
    CHECK(index.size() == 1);
    index.drop(root);
    CHECK(index.size() == 0);
    CHECK(index.find_root("") == PrefixIndex::kNoContent);
  }
}

TEST_CASE("a content lives while something follows it") {
  PrefixIndex index(7);
  const ContentId root = index.root("salt");
  index.hold(root);
  const ContentId first = index.find_or_add(root, std::vector<TokenId>{1, 2});
  index.set_block(first, 0);
  const ContentId second = index.find_or_add(first, std::vector<TokenId>{3, 4});
  index.set_block(second, 1);
  index.clear_block(first);
  CHECK(index.find(root, std::vector<TokenId>{1, 2}) == first);
  CHECK(index.block(first) == kNoBlock);
  index.clear_block(second);
  CHECK(index.find(root, std::vector<TokenId>{1, 2}) == PrefixIndex::kNoContent);
  index.drop(root);
  CHECK(index.size() == 0);
}

}  // namespace sluice
