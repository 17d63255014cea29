// The output of a benchmark: a table for people, or with --json one object a line:
//   {"bench":"engine","case":"mlp step","value":2.01,"unit":"ms","reference":"jax 0.10.2,
//   jit","reference_value":2.53,
//    "ratio":0.794,"runs":5,"bound":1,"bound_of":"ratio","direction":"<=","holds":true}
// The reference is what was measured beside the value in the same run. With --check the program ends with
// status 1 when a bound is missed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leat::bench {

// The bound of a row.
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
  std::string reference = {};  // empty: measured beside nothing; then reference_value and ratio are null
  double reference_value = 0;
  double ratio = 0;  // 0: value / reference_value; else as measured, pair by pair
  size_t runs = 0;   // the value is their median; 0: the same in every run, a count
  Bound bound = {};
};

// The median of `values`, one a run. With a reference, also the median of its values and of the ratios run by
// run: what slows the machine for a while slows both.
Row MedianRow(std::string name, const std::vector<double>& values, std::string unit,
              std::string reference = {}, const std::vector<double>& reference_values = {}, Bound bound = {});

// Whether the row reaches its bound; nothing where it has none. A number that is not finite reaches no bound.
std::optional<bool> Holds(const Row& row);

// The arguments of a benchmark. Unknown ones end the program with status 2.
class Args {
 public:
  Args(int argc, char** argv);
  bool json() const { return json_; }    // --json
  bool check() const { return check_; }  // --check
  bool Flag(std::string_view name);
  double Number(std::string_view name, double fallback);  // --seconds 2
  std::string String(std::string_view name, std::string_view fallback);
  // To be called when all has been read.
  void RefuseTheRest() const;

 private:
  std::vector<std::string> args_;
  bool json_ = false;
  bool check_ = false;
};

// Time of all processors since they were started, in ticks; zeros where the system does not tell.
struct Ticks {
  double busy = 0;
  double stolen = 0;  // of a virtual machine: something would have run, and its host did not let it
  static Ticks Now();
};
// The share of the time from one to the other that the host took, of the time in which processors were
// wanted.
double StolenShare(const Ticks& from, const Ticks& to);
// The warning for such a share; empty up to a tenth.
std::string StolenWarning(double share);

class Report {
 public:
  Report(std::string bench, const Args& args);
  // Prints the table if Finish was never reached.
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  // A JSON line is printed at once, so that what was measured survives what goes wrong later.
  void Add(Row row);
  // A line under the table, for people only.
  void Note(std::string line);
  // A part that cannot be measured on this machine: a note, and with --check a failure.
  void Skip(const std::string& reason);

  // Prints the table, and to stderr the bounds that are missed, the rows of too few runs, and how much of the
  // processors the host took when that is more than a tenth. Returns the exit status: 1 with --check when a
  // bound is missed or a part was skipped, else 0.
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

// One row as a JSON object; numbers that are not finite become null.
std::string ToJson(std::string_view bench, const Row& row);
// "AMD EPYC, 2 cores, 23.5 GiB, load 0.3"
std::string MachineLine();

}  // namespace leat::bench
