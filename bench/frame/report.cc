#include "report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>

#include "measure.h"

namespace leat::bench {
namespace {

constexpr size_t kMinRuns = 3;
// With more steal time than this, times measure the host rather than the program.
constexpr double kMaxStolen = 0.1;

double RatioOf(const Row& row) {
  if (row.reference.empty()) return NAN;
  return row.ratio != 0 ? row.ratio : row.value / row.reference_value;
}

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Four significant digits: more are not reproducible on a shared machine.
std::string ForPeople(double value) {
  if (!std::isfinite(value)) return "";
  const double size = std::abs(value);
  if (size >= 1e7) return Format("%.4g", value);
  if (size >= 1000) return Format("%.0f", value);
  if (size >= 100) return Format("%.1f", value);
  if (size >= 1) return Format("%.2f", value);
  return Format("%.4g", value);
}

const char* Symbol(Bound::Direction direction, bool ascii) {
  switch (direction) {
    case Bound::Direction::kAtMost:
      return ascii ? "<=" : "≤";
    case Bound::Direction::kBelow:
      return "<";
    case Bound::Direction::kAtLeast:
      return ascii ? ">=" : "≥";
  }
  return "";
}

// "ratio ≤ 1.00, missed"; empty without a bound.
std::string BoundForPeople(const Row& row) {
  const std::optional<bool> holds = Holds(row);
  if (!holds) return "";
  return std::string(row.bound.of == Bound::Of::kRatio ? "ratio " : "value ") +
         Symbol(row.bound.direction, false) + " " + Format("%.10g", row.bound.limit) +
         (*holds ? "" : ", missed");
}

std::string JsonNumber(double value) {
  return std::isfinite(value) ? Format("%.9g", value) : "null";
}

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string BoundToJson(const Row& row) {
  const std::optional<bool> holds = Holds(row);
  if (!holds) return ",\"bound\":null,\"bound_of\":null,\"direction\":null,\"holds\":null";
  return ",\"bound\":" + JsonNumber(row.bound.limit) +
         ",\"bound_of\":" + (row.bound.of == Bound::Of::kRatio ? "\"ratio\"" : "\"value\"") +
         ",\"direction\":" + JsonString(Symbol(row.bound.direction, true)) +
         ",\"holds\":" + (*holds ? "true" : "false");
}

// The width in a terminal: continuation bytes of UTF-8 take no column.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void PrintLines(const std::vector<std::vector<std::string>>& lines) {
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], Width(line[i]));
  }
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string gap(widths[i] - Width(line[i]), ' ');
      // Numbers are aligned to the right.
      const bool number = i == 1 || i == 4 || i == 5;
      text += (i == 0 ? "" : "  ") + (number ? gap + line[i] : line[i] + gap);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    std::printf("%s\n", text.c_str());
  }
}

}  // namespace

Row MedianRow(std::string name, const std::vector<double>& values, std::string unit, std::string reference,
              const std::vector<double>& reference_values, Bound bound) {
  Row row{.name = std::move(name),
          .value = Median(values),
          .unit = std::move(unit),
          .reference = std::move(reference),
          .runs = values.size(),
          .bound = bound};
  if (row.reference.empty()) return row;
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(values.size(), reference_values.size()); ++i) {
    ratios.push_back(values[i] / reference_values[i]);
  }
  row.reference_value = Median(reference_values);
  row.ratio = Median(ratios);
  return row;
}

Row WorstRow(std::string name, const std::vector<double>& values, std::string unit, Bound bound) {
  return {.name = std::move(name),
          .value = bound.direction == Bound::Direction::kAtLeast ? *std::ranges::min_element(values)
                                                                 : *std::ranges::max_element(values),
          .unit = std::move(unit),
          .runs = values.size(),
          .bound = bound};
}

std::optional<bool> Holds(const Row& row) {
  if (row.bound.of == Bound::Of::kNothing) return std::nullopt;
  const double is = row.bound.of == Bound::Of::kRatio ? RatioOf(row) : row.value;
  if (!std::isfinite(is)) return false;
  switch (row.bound.direction) {
    case Bound::Direction::kAtMost:
      return is <= row.bound.limit;
    case Bound::Direction::kBelow:
      return is < row.bound.limit;
    case Bound::Direction::kAtLeast:
      return is >= row.bound.limit;
  }
  return false;
}

Args::Args(int argc, char** argv) : args_(argv + 1, argv + argc) {
  json_ = Flag("--json");
  check_ = Flag("--check");
}

bool Args::Take(std::string_view name) {
  return std::erase(args_, name) > 0;
}

bool Args::Flag(std::string_view name) {
  known_ += "  " + std::string(name) + "\n";
  return Take(name);
}

std::string Args::String(std::string_view name, std::string_view fallback) {
  known_ += "  " + std::string(name) + " VALUE" +
            (fallback.empty() ? "" : " (" + std::string(fallback) + ")") + "\n";
  return Value(name, fallback);
}

std::string Args::Value(std::string_view name, std::string_view fallback) {
  const auto it = std::find(args_.begin(), args_.end(), name);
  if (it == args_.end()) return std::string(fallback);
  if (it + 1 == args_.end()) {
    std::fprintf(stderr, "%s needs a value\n", it->c_str());
    std::exit(2);
  }
  std::string value = *(it + 1);
  args_.erase(it, it + 2);
  return value;
}

double Args::Number(std::string_view name, double fallback) {
  known_ += "  " + std::string(name) + " NUMBER (" + Format("%g", fallback) + ")\n";
  const std::string text = Value(name, "");
  if (text.empty()) return fallback;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) {
    std::fprintf(stderr, "%s must be a number, not '%s'\n", std::string(name).c_str(), text.c_str());
    std::exit(2);
  }
  return value;
}

void Args::RefuseTheRest() {
  if (Take("--help") || Take("-h")) {
    std::printf("options:\n%s", known_.c_str());
    std::exit(0);
  }
  if (args_.empty()) return;
  std::fprintf(stderr, "unknown argument: %s\n", args_[0].c_str());
  std::exit(2);
}

Ticks Ticks::Now() {
  // user nice system idle iowait irq softirq steal
  std::array<double, 8> all{};
  std::ifstream stat("/proc/stat");
  std::string word;
  stat >> word;
  for (double& ticks : all) stat >> ticks;
  if (!stat) return {};
  return {.busy = all[0] + all[1] + all[2] + all[5] + all[6], .stolen = all[7]};
}

std::string StolenWarning(double share) {
  if (share <= kMaxStolen) return "";
  return Format("the host took %.1f %%", 100 * share) +
         " of the processors; measure again on a quieter machine";
}

double StolenShare(const Ticks& from, const Ticks& to) {
  const double stolen = to.stolen - from.stolen, wanted = to.busy - from.busy + stolen;
  return stolen > 0 ? stolen / wanted : 0;
}

Report::Report(std::string bench, const Args& args)
    : bench_(std::move(bench)), json_(args.json()), check_(args.check()) {}

Report::~Report() {
  if (!finished_ && !json_) PrintTable(StolenShare(begin_, Ticks::Now()));
}

void Report::PrintTable(double stolen) const {
  std::vector<std::vector<std::string>> lines = {
      {bench_, "value", "unit", "reference", "value", "ratio", "bound"}};
  for (const Row& row : rows_) {
    lines.push_back({row.name, ForPeople(row.value), row.unit, row.reference,
                     row.reference.empty() ? "" : ForPeople(row.reference_value), ForPeople(RatioOf(row)),
                     BoundForPeople(row)});
  }
  PrintLines(lines);
  for (const auto& note : notes_) std::printf("%s\n", note.c_str());
  std::printf("machine: %s%s\n", MachineLine().c_str(),
              stolen > 0 ? Format(", %.1f %% stolen by the host", 100 * stolen).c_str() : "");
  std::fflush(stdout);
}

void Report::Add(Row row) {
  if (json_) {
    std::printf("%s\n", ToJson(bench_, row).c_str());
    std::fflush(stdout);
  }
  rows_.push_back(std::move(row));
}

void Report::Skip(const std::string& reason) {
  notes_.push_back("not measured: " + reason);
  skipped_.push_back(reason);
}

int Report::Finish() {
  finished_ = true;
  const double stolen = StolenShare(begin_, Ticks::Now());
  if (!json_) PrintTable(stolen);
  const auto say = [&](const std::string& what) {
    std::fprintf(stderr, "bench %s: %s\n", bench_.c_str(), what.c_str());
  };
  bool missed = false;
  for (const Row& row : rows_) {
    if (row.runs > 0 && row.runs < kMinRuns) say("warning: " + row.name + " comes from too few runs");
    if (Holds(row).value_or(true)) continue;
    missed = true;
    const bool of_ratio = row.bound.of == Bound::Of::kRatio;
    say("missed: " + row.name + (row.reference.empty() ? "" : " against " + row.reference) + ": " +
        (of_ratio ? "ratio " + ForPeople(RatioOf(row)) : ForPeople(row.value) + " " + row.unit) +
        ", must be " + Symbol(row.bound.direction, false) + " " + Format("%.10g", row.bound.limit));
  }
  for (const auto& reason : skipped_) say("not measured: " + reason);
  if (const std::string warning = StolenWarning(stolen); !warning.empty()) say("warning: " + warning);
  return check_ && (missed || !skipped_.empty()) ? 1 : 0;
}

void Report::Note(std::string line) {
  notes_.push_back(std::move(line));
}

std::string ToJson(std::string_view bench, const Row& row) {
  const bool alone = row.reference.empty();
  return "{\"bench\":" + JsonString(bench) + ",\"case\":" + JsonString(row.name) +
         ",\"value\":" + JsonNumber(row.value) + ",\"unit\":" + JsonString(row.unit) +
         ",\"reference\":" + (alone ? "null" : JsonString(row.reference)) +
         ",\"reference_value\":" + (alone ? "null" : JsonNumber(row.reference_value)) +
         ",\"ratio\":" + JsonNumber(RatioOf(row)) +
         ",\"runs\":" + (row.runs == 0 ? "null" : std::to_string(row.runs)) + BoundToJson(row) + "}";
}

std::string MachineLine() {
  std::string model = "unknown processor";
  std::ifstream cpu("/proc/cpuinfo");
  for (std::string line; std::getline(cpu, line);) {
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
  double kib = 0;
  std::string word;
  std::ifstream("/proc/meminfo") >> word >> kib;
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return model + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores, " +
         Format("%.1f GiB, load ", kib / (1024 * 1024)) + Format("%.2g", load);
}

}  // namespace leat::bench
