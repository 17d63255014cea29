// leat export: writes the newest checkpoint of a job as an ONNX file.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "commands.h"
#include "job/export.h"
#include "job/job.h"

namespace leat {

void AddExportCommand(CLI::App& app, int* result) {
  struct Options {
    std::string directory, data, to;
    int64_t batch = 0;
  };
  const auto a = std::make_shared<Options>();
  auto* command = app.add_subcommand("export", "write the newest checkpoint of a job as an ONNX file");
  command->add_option("--directory", a->directory, "directory of the job")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--to", a->to, "ONNX file to write")->required();
  command->add_option("--batch", a->batch, "fixed batch size (default: any, a symbolic axis)")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  command->add_option("--data", a->data, "directory of the job's input files (default: the job's)")
      ->check(CLI::ExistingDirectory);
  command->callback([a, result] {
    job::JobSource source;
    source.resume = a->directory;
    job::JobOverrides overrides;
    overrides.data = a->data;
    const auto written = job::ExportOnnx(job::Job::Load(source, overrides), a->to, a->batch);
    if (!written.ok()) throw std::invalid_argument(written.status().message());
    if (!written->warning.empty()) std::fprintf(stderr, "leat: warning: %s\n", written->warning.c_str());
    std::printf("%s: %llu bytes\n", a->to.c_str(), static_cast<unsigned long long>(written->bytes));
    *result = 0;
  });
}

}  // namespace leat
