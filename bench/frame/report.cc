#include "report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>

namespace leat::bench {
namespace {

double RatioOf(const Row& row) {
  if (row.reference.empty()) return NAN;
  return row.ratio != 0 ? row.ratio : row.value / row.reference_value;
}

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Four digits are more than a shared machine can repeat.
std::string ForPeople(double value) {
  if (!std::isfinite(value)) return "";
  const double size = std::abs(value);
  if (size >= 1e7) return Format("%.4g", value);
  if (size >= 1000) return Format("%.0f", value);
  if (size >= 100) return Format("%.1f", value);
  if (size >= 1) return Format("%.2f", value);
  return Format("%.4g", value);
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

// Columns that a terminal shows: bytes that continue a UTF-8 character take none.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void PrintTable(const std::vector<std::vector<std::string>>& lines) {
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], Width(line[i]));
  }
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string gap(widths[i] - Width(line[i]), ' ');
      // Numbers stand to the right.
      const bool number = i == 1 || i == 4 || i == 5;
      text += (i == 0 ? "" : "  ") + (number ? gap + line[i] : line[i] + gap);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    std::printf("%s\n", text.c_str());
  }
}

}  // namespace

Args::Args(int argc, char** argv) : args_(argv + 1, argv + argc) {}

bool Args::Flag(std::string_view name) {
  const auto it = std::find(args_.begin(), args_.end(), name);
  if (it == args_.end()) return false;
  args_.erase(it);
  return true;
}

std::string Args::String(std::string_view name, std::string_view fallback) {
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
  const std::string text = String(name, "");
  if (text.empty()) return fallback;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) {
    std::fprintf(stderr, "%s is no number: %s\n", std::string(name).c_str(), text.c_str());
    std::exit(2);
  }
  return value;
}

void Args::RefuseTheRest() const {
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

std::string StolenBetween(const Ticks& from, const Ticks& to) {
  const double stolen = to.stolen - from.stolen, wanted = to.busy - from.busy + stolen;
  return stolen > 0 ? Format("%.1f %% stolen by the host", 100 * stolen / wanted) : "";
}

Report::Report(std::string bench, bool json) : bench_(std::move(bench)), json_(json) {}

Report::~Report() {
  if (json_) return;
  std::vector<std::vector<std::string>> lines = {
      {bench_, "value", "unit", "reference", "value", "ratio", "must be"}};
  for (const Row& row : rows_) {
    lines.push_back({row.name, ForPeople(row.value), row.unit, row.reference,
                     row.reference.empty() ? "" : ForPeople(row.reference_value), ForPeople(RatioOf(row)),
                     row.bound});
  }
  PrintTable(lines);
  for (const auto& note : notes_) std::printf("%s\n", note.c_str());
  const std::string stolen = StolenBetween(begin_, Ticks::Now());
  std::printf("machine: %s%s%s\n", MachineLine().c_str(), stolen.empty() ? "" : ", ", stolen.c_str());
}

void Report::Add(Row row) {
  if (json_) {
    std::printf("%s\n", ToJson(bench_, row).c_str());
    std::fflush(stdout);
  }
  rows_.push_back(std::move(row));
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
         ",\"ratio\":" + JsonNumber(RatioOf(row)) + "}";
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
