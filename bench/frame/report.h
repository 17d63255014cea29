// What a benchmark prints: a table for people, or with --json one object a line:
//   {"bench":"step","case":"mlp","value":0.00198,"unit":"s","reference":"its oneDNN matmuls",
//    "reference_value":0.00177,"ratio":1.12}
// The reference is what was measured beside the value in the same run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace leat::bench {

struct Row {
  std::string name = {};
  double value = 0;
  std::string unit = {};
  std::string reference = {};  // empty: measured beside nothing; then reference_value and ratio are null
  double reference_value = 0;
  double ratio = 0;        // 0: value / reference_value; else as measured, pair by pair
  std::string bound = {};  // what the row must reach, for people: "≤ 1.25"
};

// The arguments of a benchmark. Unknown ones end the program with status 2.
class Args {
 public:
  Args(int argc, char** argv);
  bool Flag(std::string_view name);                       // --json
  double Number(std::string_view name, double fallback);  // --seconds 2
  std::string String(std::string_view name, std::string_view fallback);
  // To be called when all has been read.
  void RefuseTheRest() const;

 private:
  std::vector<std::string> args_;
};

// Of all processors since they were started, in ticks; zeros where the system does not tell.
struct Ticks {
  double busy = 0;
  double stolen = 0;  // a virtual machine's: something would have run, and its host did not let it
  static Ticks Now();
};
// "3.1 % stolen by the host": of the time from one to the other in which processors were wanted. Empty where
// nothing was.
std::string StolenBetween(const Ticks& from, const Ticks& to);

class Report {
 public:
  Report(std::string bench, bool json);
  // Prints what is left of the table.
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  // A JSON line is printed at once, so that what was measured survives what goes wrong later.
  void Add(Row row);
  // A line under the table, for people only.
  void Note(std::string line);

 private:
  std::string bench_;
  bool json_;
  Ticks begin_ = Ticks::Now();
  std::vector<Row> rows_;
  std::vector<std::string> notes_;
};

// One row as a JSON object; numbers that are not finite become null.
std::string ToJson(std::string_view bench, const Row& row);
// "AMD EPYC, 2 cores, 23.5 GiB, load 0.3"
std::string MachineLine();

}  // namespace leat::bench
