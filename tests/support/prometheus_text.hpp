// A strict reader of Prometheus' text format 0.0.4, and the rules that `promtool check metrics`
// applies to names. Written from the format's description, without a look at what writes it here.
//
//   const PrometheusText metrics(body);
//   CHECK(metrics.faults() == std::vector<std::string>{});
//   CHECK(metrics.value("sluice_ready") == 1.0);
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::test {

class PrometheusText {
 public:
  using Labels = std::map<std::string, std::string>;

  struct Sample {
    std::string name;
    Labels labels;
    double value = 0.0;
  };

  struct Family {
    std::string name;
    std::string help;
    std::string type;
    std::vector<Sample> samples{};
  };

  explicit PrometheusText(const std::string& text) {
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = text.find('\n', begin);
      if (end == std::string::npos) {
        fault("the last line has no end");
        break;
      }
      read_line(text.substr(begin, end - begin));
      begin = end + 1;
    }
    for (const Family& family : families_) check(family);
  }

  const std::vector<std::string>& faults() const { return faults_; }
  const std::vector<Family>& families() const { return families_; }

  /// Of a sample with exactly these labels; NaN when there is none.
  double value(const std::string& name, const Labels& labels = {}) const {
    for (const Family& family : families_) {
      for (const Sample& sample : family.samples) {
        if (sample.name == name && sample.labels == labels) return sample.value;
      }
    }
    return std::nan("");
  }

  /// Name and labels of every sample.
  std::set<std::string> series() const {
    std::set<std::string> all;
    for (const Family& family : families_) {
      for (const Sample& sample : family.samples) all.insert(identity(sample));
    }
    return all;
  }

 private:
  void fault(const std::string& what) { faults_.push_back(what); }

  static std::string identity(const Sample& sample) {
    std::string text = sample.name;
    for (const auto& [name, value] : sample.labels) text += "|" + name + "=" + value;
    return text;
  }

  void read_line(const std::string& line) {
    if (line.starts_with("# HELP ")) {
      const std::size_t space = line.find(' ', 7);
      if (space == std::string::npos) return fault("HELP without text: " + line);
      const std::string name = line.substr(7, space - 7);
      for (const Family& family : families_) {
        if (family.name == name) fault("described twice: " + name);
      }
      families_.push_back({name, line.substr(space + 1), ""});
    } else if (line.starts_with("# TYPE ")) {
      const std::size_t space = line.find(' ', 7);
      if (space == std::string::npos) return fault("TYPE without a type: " + line);
      if (families_.empty() || families_.back().name != line.substr(7, space - 7) ||
          !families_.back().type.empty() || !families_.back().samples.empty()) {
        return fault("TYPE does not follow its HELP: " + line);
      }
      families_.back().type = line.substr(space + 1);
    } else if (line.empty() || line.front() == '#') {
      fault("neither sample nor description: " + line);
    } else {
      read_sample(line);
    }
  }

  void read_sample(const std::string& line) {
    static const std::regex kName("[a-zA-Z_:][a-zA-Z0-9_:]*");
    Sample sample;
    std::size_t at = line.find_first_of("{ ");
    if (at == std::string::npos) return fault("no value: " + line);
    sample.name = line.substr(0, at);
    if (!std::regex_match(sample.name, kName)) fault("not a name: " + line);
    if (line[at] == '{' && !read_labels(line, at, sample.labels)) {
      return fault("bad labels: " + line);
    }
    if (at >= line.size() || line[at] != ' ') return fault("no space before the value: " + line);
    const std::string number = line.substr(at + 1);
    char* rest = nullptr;
    sample.value = std::strtod(number.c_str(), &rest);
    if (number.empty() || *rest != '\0') return fault("not a number: " + line);
    if (families_.empty() || !belongs(sample.name, families_.back())) {
      return fault("a sample outside its description: " + line);
    }
    if (!seen_.insert(identity(sample)).second) fault("twice: " + line);
    families_.back().samples.push_back(std::move(sample));
  }

  /// From '{' to after '}'.
  static bool read_labels(const std::string& line, std::size_t& at, Labels& labels) {
    static const std::regex kLabel("[a-zA-Z_][a-zA-Z0-9_]*");
    do {
      ++at;
      const std::size_t equals = line.find("=\"", at);
      if (equals == std::string::npos) return false;
      const std::string name = line.substr(at, equals - at);
      if (!std::regex_match(name, kLabel) || name.starts_with("__")) return false;
      std::string value;
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] != '\\') {
          value += line[at];
          continue;
        }
        if (++at == line.size()) return false;
        if (line[at] != '\\' && line[at] != '"' && line[at] != 'n') return false;
        value += line[at] == 'n' ? '\n' : line[at];
      }
      if (++at >= line.size()) return false;
      if (!labels.emplace(name, value).second) return false;
    } while (line[at] == ',');
    return line[at++] == '}';
  }

  static bool belongs(const std::string& sample, const Family& family) {
    if (sample == family.name) return family.type != "histogram";
    if (family.type != "histogram" || !sample.starts_with(family.name)) return false;
    const std::string suffix = sample.substr(family.name.size());
    return suffix == "_bucket" || suffix == "_sum" || suffix == "_count";
  }

  void check(const Family& family) {
    const std::string& name = family.name;
    static const std::set<std::string> kTypes = {"counter", "gauge", "histogram"};
    if (!kTypes.contains(family.type)) fault("type of " + name + ": " + family.type);
    if (family.help.size() < 5) fault("no help: " + name);
    if (family.samples.empty()) fault("no samples: " + name);
    if ((family.type == "counter") != name.ends_with("_total")) {
      fault("_total belongs to counters, and to all of them: " + name);
    }
    for (const char* suffix : {"_count", "_sum", "_bucket", "_info_total"}) {
      if (name.ends_with(suffix)) fault("a reserved ending: " + name);
    }
    static const std::regex kOtherUnits(
        ".*_(ms|milliseconds|us|microseconds|minutes|hours|kb|mb|gb|kib|mib|gib|kilobytes|"
        "megabytes|"
        "percent|perc)(_.*)?");
    if (std::regex_match(name, kOtherUnits)) fault("not a base unit: " + name);
    static const std::regex kSnakeCase("[a-z][a-z0-9]*(_[a-z0-9]+)*");
    if (!std::regex_match(name, kSnakeCase)) fault("not snake case: " + name);
    for (const char* type : {"counter", "gauge", "histogram"}) {
      if (name.find(type) != std::string::npos) fault("the type in the name: " + name);
    }
    for (const Sample& sample : family.samples) {
      if (family.type != "gauge" && !(sample.value >= 0.0)) fault("below 0: " + identity(sample));
      if (name.ends_with("_ratio") && !(sample.value >= 0.0 && sample.value <= 1.0)) {
        fault("not a share: " + identity(sample));
      }
      for (const auto& [label, value] : sample.labels) {
        if ((label == "le") != (sample.name.ends_with("_bucket"))) fault("le: " + identity(sample));
      }
    }
    if (family.type == "histogram") check_buckets(family);
  }

  void check_buckets(const Family& family) {
    double last_bound = -HUGE_VAL;
    double last_count = 0.0;
    std::optional<double> sum;
    std::optional<double> count;
    for (const Sample& sample : family.samples) {
      if (sample.name.ends_with("_sum")) sum = sample.value;
      if (sample.name.ends_with("_count")) count = sample.value;
      if (!sample.name.ends_with("_bucket")) continue;
      const auto bound_text = sample.labels.find("le");
      if (bound_text == sample.labels.end()) return fault("a bucket without le: " + family.name);
      const double bound = bound_text->second == "+Inf"
                               ? HUGE_VAL
                               : std::strtod(bound_text->second.c_str(), nullptr);
      if (!(bound > last_bound)) fault("bounds do not ascend: " + identity(sample));
      if (sample.value < last_count) fault("buckets fall: " + identity(sample));
      last_bound = bound;
      last_count = sample.value;
    }
    if (last_bound != HUGE_VAL) fault("no +Inf bucket: " + family.name);
    if (!sum) fault("no _sum: " + family.name);
    if (!count || *count != last_count) fault("_count is not the last bucket: " + family.name);
  }

  std::vector<Family> families_;
  std::set<std::string> seen_;
  std::vector<std::string> faults_;
};

}  // namespace sluice::test
