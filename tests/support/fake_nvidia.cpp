// The two libraries of NVIDIA's driver that tell how busy a GPU is, as one module for tests: device
// 1 of two is at 37 %, with 3 of 8 GiB in use.
#include <cstdint>
#include <cstring>

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuDeviceGet(int* device, int number) {
  *device = number + 100;
  return number < 2 ? 0 : 101;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  const char* place = device == 101 ? "0000:41:00.0" : "0000:01:00.0";
  if (static_cast<int>(std::strlen(place)) >= size) return 1;
  std::strcpy(text, place);
  return 0;
}

int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** device) {
  static int known = 0;
  *device = &known;
  return std::strcmp(place, "0000:41:00.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetMemoryInfo(void*, std::uint64_t* total_free_used) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  total_free_used[0] = 8 * kGiB;
  total_free_used[1] = 5 * kGiB;
  total_free_used[2] = 3 * kGiB;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* gpu_and_memory) {
  gpu_and_memory[0] = 37;
  gpu_and_memory[1] = 12;
  return 0;
}
}
