#include "engine/sampling/philox.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace sluice;

TEST_CASE("Philox gives the published answers") {
  // Known-answer vectors of the authors' library, philox4x32 with 10 rounds.
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        PhiloxCounter{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  CHECK(philox4x32({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {0xFFFFFFFF, 0xFFFFFFFF}) ==
        PhiloxCounter{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
  CHECK(philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}) ==
        PhiloxCounter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("draws are uniform over positions and over seeds") {
  for (const bool over_positions : {true, false}) {
    std::vector<int> bins(64);
    const int n = 64000;
    for (int i = 0; i < n; ++i) {
      const auto u = static_cast<std::uint32_t>(i);
      const double x = over_positions ? uniform_draw(42, u) : uniform_draw(u, 42);
      REQUIRE(x >= 0.0);
      REQUIRE(x < 1.0);
      ++bins[static_cast<std::size_t>(x * 64)];
    }
    double chi_square = 0;
    for (const int count : bins) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
    CHECK(chi_square < 103.4);  // 99.9 % point for 63 degrees of freedom
    CHECK(chi_square > 30.0);   // suspiciously even otherwise
  }
}
