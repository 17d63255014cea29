// leat calibrate: measures a job and a machine for the simulator.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/exit_status.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "job/job.h"
#include "lab/study/profile.h"
#include "run/launcher/output/output_file.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"

namespace leat {
namespace {

struct CalibrateArguments {
  job::JobSource source;
  job::JobOverrides overrides;
  study::CalibrationOptions options;
  std::string out;
  std::string listen;
  SecurityOptions security;
};

void Print(const study::Profile& profile, std::FILE* out) {
  std::fprintf(out, "job '%s' on %u cores of %s\n", profile.job.c_str(), profile.cores,
               profile.machine.c_str());
  for (const study::BatchProfile& batch : profile.batches) {
    const auto& quantiles = batch.quantiles_s;
    std::fprintf(out,
                 "  %-22s%.3f ms (median %.3f, from %.3f to %.3f), the first gradient after %.0f%% of it\n",
                 ("batch of " + std::to_string(batch.size)).c_str(), batch.compute_s * 1e3,
                 quantiles[quantiles.size() / 2] * 1e3, quantiles.front() * 1e3, quantiles.back() * 1e3,
                 batch.first_gradient * 100);
  }
  const auto cost = [out](const char* name, const study::CostProfile& costs) {
    std::fprintf(out, "  %-22s%.1f us and %.3f ns/byte\n", name, costs.message_s * 1e6, costs.byte_s * 1e9);
  };
  cost("a push to a server", profile.server);
  cost("a message of a worker", profile.worker);
  if (profile.input.decode_s > 0) {
    std::fprintf(out, "  %-22s%.2f us, %.0f bytes\n", "decoding an event", profile.input.decode_s * 1e6,
                 profile.input.event_bytes);
  } else {
    std::fprintf(out, "  %-22snot measured: this host cannot read the job's input now\n",
                 "decoding an event");
  }
  if (profile.link) {
    std::fprintf(out, "  %-22s%.1f MB/s in each direction, %.0f us one way\n",
                 ("link to " + profile.link->to).c_str(), profile.link->bytes_per_s / 1e6,
                 profile.link->latency_s * 1e6);
  }
}

int Calibrate(CalibrateArguments a) {
  launcher::BlockSignals();
  const bool link = !a.options.to.empty() || !a.listen.empty();
  if (link) {
    a.options.token = OrThrow(launcher::UserToken());
    a.options.security = a.security.Read();
  }
  if (!a.listen.empty()) {
    if (!a.source.file.empty()) throw std::invalid_argument("--listen answers another host; it takes no job");
    ThrowIfError(launcher::CheckListen(a.options.security, a.listen));
    ThrowIfError(
        study::ServeLinkTest(a.listen, a.options.token, a.options.security, [](const std::string& address) {
          std::printf("serves on %s (end with Ctrl-C)\n", address.c_str());
          std::fflush(stdout);
        }));
    return 0;
  }
  if (a.source.file.empty()) throw std::invalid_argument("calibrate needs a job file, or --listen");
  if (a.out.empty()) throw std::invalid_argument("calibrate needs --out FILE");
  const job::Job job = job::Job::Load(a.source, a.overrides);
  a.options.kernels = Kernels();
  launcher::OutputFile file = OrThrow(launcher::OutputFile::Open(a.out));
  const study::Profile profile = OrThrow(study::Calibrate(job, a.options));
  Status written = file.Write(study::ToJson(profile) + "\n");
  if (written.ok()) written = file.Close();
  ThrowIfError(written);
  Print(profile, launcher::MessagesBeside(file));
  return 0;
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, int* result) {
  const auto a = std::make_shared<CalibrateArguments>();
  auto* command = app.add_subcommand(
      "calibrate",
      "measure a job's batches and messages on this machine, for simulate --profile, study and advise");
  command->add_option("job", a->source.file, "job file (YAML)");
  command->add_option("--out", a->out, "file that the profile is written to (JSON)");
  AddData(command, &a->overrides.data);
  command
      ->add_option("--batch", a->options.batches,
                   "sizes of batches (default: the job's); times between are interpolated")
      ->check(CLI::Range(1u, 1'000'000u));
  command
      ->add_option("--seconds", a->options.seconds,
                   "time for each size of batches; messages take a quarter of it")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  command->add_option(
      "--to", a->options.to,
      "also measure the link to another host: the address on which leat calibrate --listen answers there");
  command->add_option("--listen", a->listen,
                      "answer the calibration of another host on this address, HOST:PORT");
  AddSecurity(command, &a->security);
  command->callback([a, result] { *result = Calibrate(*a); });
}

}  // namespace leat
