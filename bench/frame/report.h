// The output of a benchmark: a table, or with --json one object per line:
//   {"bench":"engine","case":"mlp step","value":2.01,"unit":"ms","reference":"jax 0.10.2, jit",
//    "reference_value":2.53,"ratio":0.794,"runs":5,"bound":1,"bound_of":"ratio","direction":"<=",
//    "holds":true}
// The reference is measured in the same run as the value. With --check the exit status is 1 if a bound is
// missed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leat::bench {

// A limit on the value or the ratio of a row.
struct Bound {
  enum class Of : uint8_t { kNothing, kRatio, kValue };
  enum class Direction : uint8_t { kAtMost, kBelow, kAtLeast };
  Of of = Of::kNothing;
  Direction direction = Direction::kAtMost;
  double limit = 0;
};
inline Bound RatioAtMost(double limit) {
  return {Bound::Of::kRatio, Bound::Direction::kAtMost, limit};
}
inline Bound RatioBelow(double limit) {
  return {Bound::Of::kRatio, Bound::Direction::kBelow, limit};
}
inline Bound RatioAtLeast(double limit) {
  return {Bound::Of::kRatio, Bound::Direction::kAtLeast, limit};
}
inline Bound ValueAtMost(double limit) {
  return {Bound::Of::kValue, Bound::Direction::kAtMost, limit};
}
inline Bound ValueAtLeast(double limit) {
  return {Bound::Of::kValue, Bound::Direction::kAtLeast, limit};
}

struct Row {
  std::string name = {};
  double value = 0;
  std::string unit = {};
  std::string reference = {};  // empty: no reference; reference_value and ratio are then null
  double reference_value = 0;
  double ratio = 0;  // 0: value / reference_value; otherwise the median of the ratios of all runs
  size_t runs = 0;   // the value is the median, or the worst, of this many runs; 0: a count that is equal in
                     // every run
  Bound bound = {};
};

// A row with the median of `values`, which has one value per run. With a reference, also the medians of its
// values and of the ratios of each run; a temporary slowdown affects both sides of a ratio alike.
Row MedianRow(std::string name, const std::vector<double>& values, std::string unit,
              std::string reference = {}, const std::vector<double>& reference_values = {}, Bound bound = {});

// A row with the largest of `values`, or the smallest under a bound from below, for a bound that every run
// must meet. At least one value.
Row WorstRow(std::string name, const std::vector<double>& values, std::string unit, Bound bound);

// Whether the row meets its bound; empty if it has none. A value that is not finite meets no bound.
std::optional<bool> Holds(const Row& row);

// The arguments of a benchmark. Unknown arguments end the program with status 2; --help prints the known
// ones.
class Args {
 public:
  Args(int argc, char** argv);
  bool json() const { return json_; }    // --json
  bool check() const { return check_; }  // --check
  bool Flag(std::string_view name);
  double Number(std::string_view name, double fallback);  // --seconds 2
  std::string String(std::string_view name, std::string_view fallback);
  // Rejects unknown arguments, and answers --help. To be called after all known arguments have been read.
  void RefuseTheRest();

 private:
  bool Take(std::string_view name);
  std::string Value(std::string_view name, std::string_view fallback);

  std::vector<std::string> args_;
  std::string known_;  // options that were asked for, a line each
  bool json_ = false;
  bool check_ = false;
};

// Time of all processors since boot, in ticks; zeros if unknown.
struct Ticks {
  double busy = 0;
  double stolen = 0;  // steal time: the host of a virtual machine ran something else
  static Ticks Now();
};
// The share of steal time in the busy time between two moments.
double StolenShare(const Ticks& from, const Ticks& to);
// The warning for this share; empty up to a tenth.
std::string StolenWarning(double share);

class Report {
 public:
  Report(std::string bench, const Args& args);
  // Prints the table if Finish was not called.
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  // Adds a row. Prints it at once with --json, so that a later failure does not lose it.
  void Add(Row row);
  // Adds a line below the table; not printed with --json.
  void Note(std::string line);
  // Reports a part that cannot be measured on this machine: a note, and with --check a failure.
  void Skip(const std::string& reason);

  // Prints the table, and to stderr the missed bounds, rows of too few runs, and a steal time of more than a
  // tenth. Returns the exit status: 1 with --check if a bound is missed or a part was skipped, otherwise 0.
  int Finish();

 private:
  void PrintTable(double stolen) const;

  std::string bench_;
  bool json_;
  bool check_;
  bool finished_ = false;
  Ticks begin_ = Ticks::Now();
  std::vector<Row> rows_;
  std::vector<std::string> notes_;
  std::vector<std::string> skipped_;
};

// A row as a JSON object; numbers that are not finite become null.
std::string ToJson(std::string_view bench, const Row& row);
// The machine in words: "AMD EPYC, 2 cores, 23.5 GiB, load 0.3".
std::string MachineLine();

}  // namespace leat::bench
