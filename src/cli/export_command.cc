// leat export: writes the newest checkpoint of a job, or the values that a running job has, as an ONNX file.
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/exit_status.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "job/job.h"
#include "job/model.h"
#include "run/launcher/output/output_file.h"
#include "run/launcher/security.h"
#include "run/roles/follow/follower_role.h"

namespace leat {
namespace {

struct ExportOptions {
  std::string directory, coordinator, data, to;
  SecurityOptions security;
  int64_t batch = 0;
};

job::Exported ExportCheckpoint(const ExportOptions& a) {
  return OrThrow(job::ExportOnnx(job::Job::Load({.resume = a.directory}, {.data = a.data}), a.batch));
}

job::Exported ExportRunning(const ExportOptions& a) {
  // For a transfer of some GB.
  constexpr Duration kDeadline = std::chrono::minutes(2);
  roles::RoleOptions options;
  options.coordinator_client.coordinator = a.coordinator;
  options.coordinator_client.token = OrThrow(launcher::UserToken());
  options.coordinator_client.tls = a.security.Read().tls;
  options.coordinator_client.data = a.data;
  const auto fetched = OrThrow(roles::FetchValues(options, kDeadline));
  return {job::OnnxOf(fetched.job, fetched.variables, a.batch), ""};
}

}  // namespace

void AddExportCommand(CLI::App& app, int* result) {
  const auto a = std::make_shared<ExportOptions>();
  auto* command = app.add_subcommand(
      "export", "write the newest checkpoint of a job, or the values of a running one, as an ONNX file");
  auto* directory =
      command->add_option("--directory", a->directory, "directory of the job")->check(CLI::ExistingDirectory);
  auto* coordinator =
      command
          ->add_option("--coordinator", a->coordinator, "address of a running job, whose values are written")
          ->excludes(directory);
  command
      ->add_option(
          "--security", a->security.folder,
          "folder of ca.pem, cert.pem and key.pem for TLS, of the role serve (default: $LEAT_SECURITY)")
      ->needs(coordinator);
  command
      ->add_flag("--trusted-network", a->security.trusted_network,
                 "every host on the network is trusted: no TLS (default: $LEAT_TRUSTED_NETWORK=1)")
      ->needs(coordinator);
  command->add_option("--to", a->to, "ONNX file to write, or a pipe or device, such as /dev/stdout")
      ->required();
  command->add_option("--batch", a->batch, "fixed batch size (default: any, a symbolic axis)")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  AddData(command, &a->data, "directory of the job's input files (default: the job's)");
  command->callback([a, result] {
    if (a->directory.empty() && a->coordinator.empty())
      throw std::invalid_argument("export needs --directory, or --coordinator for a running job");
    const job::Exported exported = a->coordinator.empty() ? ExportCheckpoint(*a) : ExportRunning(*a);
    if (!exported.warning.empty()) std::fprintf(stderr, "leat: warning: %s\n", exported.warning.c_str());
    launcher::OutputFile file = OrThrow(launcher::OutputFile::Open(a->to));
    Status written = file.Write(exported.file);
    if (written.ok()) written = file.Close();
    ThrowIfError(written);
    std::fprintf(launcher::MessagesBeside(file), "%s: %zu bytes\n", a->to.c_str(), exported.file.size());
    *result = 0;
  });
}

}  // namespace leat
