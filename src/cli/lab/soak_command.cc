// leat soak: rounds of jobs with real processes and random faults.
#include <memory>

#include "cli/commands.h"
#include "lab/soak/soak.h"

namespace leat {

void AddSoakCommand(CLI::App& app, int* result) {
  const auto options = std::make_shared<soak::SoakOptions>();
  auto* command = app.add_subcommand(
      "soak", "run jobs that count events with real processes and random faults, and check the counts");
  command->add_option("--rounds", options->rounds, "number of jobs, one after the other")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000}))
      ->capture_default_str();
  command
      ->add_option("--seed", options->first_seed, "random seed of the first round; the next one has the next")
      ->capture_default_str();
  command->add_flag(
      "--on-this-host", options->on_this_host,
      "run all processes here instead of on emulated hosts: no link is cut and no disk fills up");
  command->add_option("--directory", options->directory,
                      "directory for logs and jobs; those of failed rounds are kept (default: in $TMPDIR)");
  command->add_flag("--json", options->json,
                    "print the result as one JSON object on stdout, and the rounds on stderr");
  command->callback([options, result] { *result = soak::RunSoak(*options); });
}

}  // namespace leat
