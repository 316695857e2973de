#include "web/metrics.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.hpp"
#include "tests/support/prometheus_text.hpp"
#include "web/exposition.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

using Faults = std::vector<std::string>;

/// Numbers in everything that can have one.
std::string full_text() {
  ServiceInfo info;
  info.model_name = "a \"model\" on C:\\models\nwith two lines";
  info.backend = "CPU";
  EngineStats engine;
  engine.kv = {.total = 100, .used = 25, .free = 75};
  engine.streams_finished = {{"end_token", 3}, {"error", 1}};
  engine.stream_errors = {{"queue_full", 1}};
  engine.histograms.ttft_seconds.observe(0.02);
  engine.histograms.ttft_seconds.observe(1e9);
  const web::HubStats hub;
  const web::Counters counters;
  return web::metrics_text({.info = info,
                            .engine = engine,
                            .streams = hub,
                            .server = counters,
                            .devices = {{0, "GPU A", 0.5, 1, 2}, {1, "GPU B", 1.0, 2, 2}},
                            .process = web::process_usage()});
}

}  // namespace

TEST_CASE("metrics follow the conventions", "[metrics]") {
  const PrometheusText metrics(full_text());
  CHECK(metrics.faults() == Faults{});
  CHECK(metrics.families().size() > 50);
  CHECK(metrics.value("sluice_model_info", {{"model", "a \"model\" on C:\\models\nwith two lines"},
                                            {"backend", "CPU"}}) == 1.0);
  CHECK(metrics.value("sluice_streams_finished_total",
                      {{"reason", "stop"}, {"rule", "end_token"}}) == 3.0);
  CHECK(metrics.value("sluice_streams_finished_total",
                      {{"reason", "length"}, {"rule", "max_new_tokens"}}) == 0.0);
  CHECK(metrics.value("sluice_stream_errors_total", {{"code", "queue_full"}}) == 1.0);
  CHECK(metrics.value("sluice_kv_usage_ratio") == 0.25);
  CHECK(metrics.value("sluice_time_to_first_token_seconds_bucket", {{"le", "0.01"}}) == 0.0);
  CHECK(metrics.value("sluice_time_to_first_token_seconds_bucket", {{"le", "0.025"}}) == 1.0);
  CHECK(metrics.value("sluice_time_to_first_token_seconds_bucket", {{"le", "600"}}) == 1.0);
  CHECK(metrics.value("sluice_time_to_first_token_seconds_bucket", {{"le", "+Inf"}}) == 2.0);
  CHECK(metrics.value("sluice_gpu_memory_used_bytes", {{"gpu", "1"}, {"name", "GPU B"}}) == 2.0);
}

TEST_CASE("metrics of a machine without a GPU do not speak of one", "[metrics]") {
  const ServiceInfo info;
  const EngineStats engine;
  const web::HubStats hub;
  const web::Counters counters;
  const std::string text =
      web::metrics_text({.info = info, .engine = engine, .streams = hub, .server = counters});
  CHECK(PrometheusText(text).faults() == Faults{});
  CHECK(text.find("gpu") == std::string::npos);
  CHECK(text.find("process_") == std::string::npos);
}

TEST_CASE("the check of metrics finds what is wrong", "[metrics]") {
  const auto faults = [](const std::string& text) { return PrometheusText(text).faults().size(); };
  const std::string good = "# HELP a_total What it is.\n# TYPE a_total counter\na_total 1\n";
  CHECK(faults(good) == 0);
  for (const char* bad : {
           "# HELP a What it is.\n# TYPE a counter\na 1\n",
           "# HELP a_total What it is.\n# TYPE a_total gauge\na_total 1\n",
           "# HELP a_total What it is.\n# TYPE a_total counter\na_total 1",
           "# HELP a_total What it is.\n# TYPE a_total counter\na_total one\n",
           "# HELP a_total What it is.\n# TYPE a_total counter\na_total 1\na_total 2\n",
           "# HELP a_total What it is.\n# TYPE a_total counter\nb_total 1\n",
           "# HELP a_total What it is.\n# TYPE a_total counter\na_total{x=\"\"\"} 1\n",
           "# HELP a_total What it is.\n# TYPE a_total counter\na_total{x=\"\\q\"} 1\n",
           "# HELP a_total What it is.\n# TYPE a_total counter\na_total{x=\"1\",x=\"2\"} 1\n",
           "# HELP a_ms What it is.\n# TYPE a_ms gauge\na_ms 1\n",
           "# TYPE a gauge\na 1\n",
           "# HELP h Buckets.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\n"
           "h_sum 1\nh_count 1\n",
           "# HELP h Buckets.\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n",
           "# HELP h Buckets.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n",
       }) {
    INFO(bad);
    CHECK(faults(bad) > 0);
  }
}

TEST_CASE("the table of metrics in the documentation is complete", "[metrics]") {
  std::ifstream file(source_dir() / "docs" / "operations.md");
  std::stringstream page;
  page << file.rdbuf();
  std::map<std::string, std::string> documented;
  const std::string text = page.str();
  const std::regex row(R"(\| `((?:sluice|process)_[a-z_]+)`[^|]*\| (counter|gauge|histogram) \|)");
  for (std::sregex_iterator match(text.begin(), text.end(), row), end; match != end; ++match) {
    CHECK(documented.emplace((*match)[1], (*match)[2]).second);
  }
  std::map<std::string, std::string> exported;
  const PrometheusText metrics(full_text());
  for (const auto& family : metrics.families()) {
    exported.emplace(family.name, family.type);
  }
  CHECK(documented == exported);
}

TEST_CASE("the use of the machine is read from proc", "[metrics]") {
  const auto before = web::process_usage();
  REQUIRE(before);
  CHECK(before->resident_bytes > 1 << 20);
  CHECK(before->virtual_bytes >= before->resident_bytes);
  CHECK(before->threads >= 1);
  CHECK(before->open_files >= 3);
  CHECK(before->max_files >= before->open_files);
  const auto now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch());
  CHECK(before->start_seconds < now.count() + 2.0);
  CHECK(before->start_seconds > now.count() - 86400.0);
  CHECK_FALSE(web::process_usage("/nowhere"));
}
