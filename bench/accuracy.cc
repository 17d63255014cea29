// Accuracy of the example jobs. The real program runs each job on all of its data; the result is compared
// with the bound in README, whose table is the output of --markdown.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "frame/measure.h"
#include "frame/program.h"
#include "frame/report.h"

namespace {

using namespace leat;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Set by Ctrl-C and polled, so that processes and directories are removed.
volatile std::sig_atomic_t interrupted = 0;

double Number(const json& summary, const char* key) {
  if (!summary.contains(key) || !summary[key].is_number()) {
    throw std::runtime_error(std::string("the summary has no ") + key + ": " + summary.dump());
  }
  return summary[key].get<double>();
}

struct Headline {
  std::string name;  // --case
  std::string row;
  std::string job;     // file in examples/; empty: the job of `leat demo`
  std::string folder;  // folder of its data in --data; empty: the job generates its data
  std::string unit;
  bench::Bound bound;
  int decimals;
  double (*result)(const json& summary);
};

double TestAccuracy(const json& summary) {
  return 100 * Number(summary, "test_accuracy");
}

const std::vector<Headline>& Headlines() {
  static const std::vector<Headline> all = {
      {"mnist", "MNIST, dense network: accuracy on the test images", "mnist.yaml", "mnist", "%",
       bench::ValueAtLeast(98.0), 2, TestAccuracy},
      {"lenet", "MNIST, convolutional network: accuracy on the test images", "lenet.yaml", "mnist", "%",
       bench::ValueAtLeast(99.0), 2, TestAccuracy},
      {"shakespeare", "Shakespeare, LSTM: loss on text that it has not seen", "shakespeare.yaml",
       "tinyshakespeare", "nats a character", bench::ValueAtMost(1.65), 3,
       [](const json& summary) { return Number(summary, "test_loss"); }},
      {"demo", "Fraud demo: AUC below what is possible", "", "", "AUC", bench::ValueAtMost(0.01), 4,
       [](const json& summary) { return Number(summary, "auc_possible") - Number(summary, "auc"); }},
  };
  return all;
}

struct Settings {
  std::string data;
  double events = 0;  // events of the demo; 0: as in its job
  double deadline = 0;
};

// Runs the job once in a temporary directory and returns its summary.
json Run(const Headline& headline, const Settings& settings) {
  const bench::Scratch scratch("accuracy");
  std::vector<std::string> words = {"demo"};
  if (!headline.job.empty()) {
    words = {"train", std::string(LEAT_EXAMPLES) + "/" + headline.job, "--data",
             settings.data + "/" + headline.folder};
  } else if (settings.events > 0) {
    words.insert(words.end(), {"--events", std::to_string(static_cast<uint64_t>(settings.events))});
  }
  words.insert(words.end(), {"--directory", scratch / "job", "--json"});
  bench::Running program(words, scratch / "output");
  const auto end = Clock::now() + std::chrono::duration<double>(settings.deadline);
  const auto left = [&] { return std::chrono::duration<double>(end - Clock::now()).count(); };
  while (program.WaitFor(std::max(0.0, left()))) {
    if (interrupted != 0) throw std::runtime_error("interrupted");
    if (left() <= 0) {
      throw std::runtime_error("the job has not ended within " +
                               std::to_string(static_cast<int>(settings.deadline)) + " s");
    }
  }
  const int status = program.Wait();
  const std::string output = program.Output();
  const auto tail = output.substr(output.size() - std::min<size_t>(output.size(), 2000));
  if (status != 0)
    throw std::runtime_error("the job failed with status " + std::to_string(status) + ": " + tail);
  // The summary is the last line, after the logs of the roles.
  const size_t begin = output.rfind("\n{");
  auto summary = json::parse(output.substr(begin == std::string::npos ? 0 : begin + 1), nullptr, false);
  if (summary.is_discarded()) throw std::runtime_error("the job printed no summary: " + tail);
  return summary;
}

// Prints README's table.
void PrintMarkdown(const std::vector<const Headline*>& chosen, const std::vector<bench::Row>& rows) {
  std::printf("| job | result | bound | command |\n|---|---|---|---|\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Headline& headline = *chosen[i];
    const bool most = headline.bound.direction == bench::Bound::Direction::kAtMost;
    const std::string command =
        headline.job.empty() ? "./leat demo" : "./leat train examples/" + headline.job + " --data DIR";
    std::printf("| %s | %.*f %s | %s %g | `%s` |\n", headline.row.c_str(), headline.decimals, rows[i].value,
                headline.unit.c_str(), most ? "≤" : "≥", headline.bound.limit, command.c_str());
  }
}

// The reason why the job cannot run here; empty if it can.
std::string Missing(const Headline& headline, const std::string& data) {
  if (headline.folder.empty()) return "";
  if (!data.empty() && std::filesystem::is_directory(data + "/" + headline.folder)) return "";
  return "examples/" + headline.job + " needs the data set " + headline.folder + ": " +
         (data.empty() ? "name its parent directory with --data DIR or LEAT_DATA"
                       : "there is no directory " + data + "/" + headline.folder);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const char* const data = std::getenv("LEAT_DATA");
  Settings settings;
  settings.data = args.String("--data", data == nullptr ? "" : data);
  settings.events = args.Number("--events", 0);
  settings.deadline = args.Number("--deadline", 1800);
  const std::string only = args.String("--case", "");
  const int runs = static_cast<int>(args.Number("--runs", 3));
  const bool markdown = args.Flag("--markdown");
  args.RefuseTheRest();

  std::vector<const Headline*> chosen;
  for (const Headline& headline : Headlines()) {
    if (only.empty() || only == headline.name) chosen.push_back(&headline);
  }
  if (chosen.empty() || runs < 1) {
    std::fprintf(stderr,
                 "bench accuracy: --case is mnist, lenet, shakespeare or demo, and --runs at least 1\n");
    return 2;
  }
  std::vector<std::string> skipped;
  for (const Headline* headline : std::vector(chosen)) {
    const std::string why = Missing(*headline, settings.data);
    if (why.empty()) continue;
    if (markdown || !only.empty()) {
      std::fprintf(stderr, "bench accuracy: %s\n", why.c_str());
      return 2;
    }
    skipped.push_back(why);
    std::erase(chosen, headline);
  }
  std::optional<bench::Report> report;
  if (!markdown) report.emplace("accuracy", args);
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  // In turn, like all benchmarks: one run of each job, then the next.
  std::vector<std::vector<double>> results(chosen.size());
  for (int run = 0; run < runs; ++run) {
    for (size_t i = 0; i < chosen.size(); ++i) {
      std::fprintf(stderr, "bench accuracy: %s, run %d of %d\n", chosen[i]->name.c_str(), run + 1, runs);
      try {
        results[i].push_back(chosen[i]->result(Run(*chosen[i], settings)));
      } catch (const std::exception& e) {
        std::fprintf(stderr, "bench accuracy: %s: %s\n", chosen[i]->name.c_str(), e.what());
        return 1;
      }
    }
  }
  std::vector<bench::Row> rows;
  for (size_t i = 0; i < chosen.size(); ++i) {
    rows.push_back(bench::MedianRow(chosen[i]->row, results[i], chosen[i]->unit, {}, {}, chosen[i]->bound));
  }
  if (markdown) {
    PrintMarkdown(chosen, rows);
    const bool hold = std::ranges::all_of(rows, [](const bench::Row& row) { return *bench::Holds(row); });
    return args.check() && !hold ? 1 : 0;
  }
  for (const auto& row : rows) report->Add(row);
  for (const auto& why : skipped) report->Skip(why);
  report->Note("the jobs in examples/, unchanged, on all of their data");
  return report->Finish();
}
