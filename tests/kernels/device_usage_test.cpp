#include "kernels/cuda/device_usage.hpp"

#include <catch2/catch.hpp>

namespace {

using namespace sluice::kernels::cuda;

const DriverLibraries kFake{SLUICE_FAKE_NVIDIA, SLUICE_FAKE_NVIDIA};

}  // namespace

TEST_CASE("the management library says how busy the device is that the runtime means", "[usage]") {
  const auto monitor = DeviceMonitor::open(1, kFake);
  REQUIRE(monitor);
  const auto load = monitor->load();
  REQUIRE(load);
  CHECK(load->utilization == Approx(0.37));
  CHECK(load->used_bytes == std::size_t{3} << 30U);
  CHECK(load->total_bytes == std::size_t{8} << 30U);
}

TEST_CASE("a device that can not be watched is none", "[usage]") {
  CHECK_FALSE(DeviceMonitor::open(0, kFake));  // the management library does not know it
  CHECK_FALSE(DeviceMonitor::open(2, kFake));  // neither does the driver
  CHECK_FALSE(DeviceMonitor::open(0, {"libnowhere.so.1", SLUICE_FAKE_NVIDIA}));
  CHECK_FALSE(DeviceMonitor::open(1, {SLUICE_FAKE_NVIDIA, "libnowhere.so.1"}));
  CHECK_FALSE(DeviceMonitor::open(1, {SLUICE_FAKE_NVIDIA, "libm.so.6"}));
}
