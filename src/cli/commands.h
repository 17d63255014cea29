// The commands of the program, and what they are made of.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "compute/engine/plan.h"

namespace leat {

// The kernels and graph passes of the program.
engine::PlanOptions Kernels();
// Prints an error as one line on stderr and returns the exit status.
int PrintOutcome(const Status& status);
// Refuses what the user wants: throws std::invalid_argument.
inline void RefuseIf(bool wrong, const std::string& why) {
  if (wrong) throw std::invalid_argument(why);
}

// Adds a command, which sets `result` to what `run` returns. `run` gets the arguments that come with the
// command, and to which its options refer.
template <class Argument>
auto AddCommand(CLI::App& app, int* result, const char* name, const char* help, int (*run)(Argument)) {
  auto arguments = std::make_shared<std::remove_cvref_t<Argument>>();
  CLI::App* const command = app.add_subcommand(name, help);
  command->callback([=] { *result = run(*arguments); });
  return std::pair(command, std::move(arguments));
}

// The type of a number, or of those in a list or an optional.
template <class Value>
auto NumberIn(const Value& value) {
  if constexpr (std::is_arithmetic_v<Value>)
    return value;
  else
    return typename Value::value_type();
}
template <class Value>
using NumberOf = decltype(NumberIn(std::declval<Value>()));
// Adds a number in [least, most]. The help shows its default, unless `help` says what it is.
template <class Value>
CLI::Option* AddNumber(CLI::App* command, const char* name, Value* value, const std::string& help,
                       NumberOf<Value> least, NumberOf<Value> most) {
  CLI::Option* const option = command->add_option(name, *value, help)->check(CLI::Range(least, most));
  return help.find("default") == std::string::npos ? option->capture_default_str() : option;
}

// Each adds commands to the program, and sets `result` to the exit status of the one that runs.
using AddCommands = void(CLI::App& app, int* result);
AddCommands AddTrainCommands;       // demo, train: run a job on this machine
AddCommands AddCoordinatorCommand;  // start the coordinator of a job, or a standby of one
AddCommands AddRoleCommands;        // ps, worker, feed, bots: start a process of a job
AddCommands AddAdminCommands;       // status, timeline, checkpoint, scale, drain, pause, continue, stop
AddCommands AddAdviseCommand;       // recommend machines and a strategy for a job, by simulation
AddCommands AddCalibrateCommand;    // measure a job and a machine for the simulator
AddCommands AddCertCommand;         // create a private certificate authority, and certificates for roles
AddCommands AddDashboardCommand;    // show a job in a browser, or a link to the page of one that runs
AddCommands AddDevicesCommand;      // show this machine's processors, caches and memory, and their speed
AddCommands AddGraphCommand;        // show a job's compute graph and its kernels
AddCommands AddHealthCommand;       // ask a role whether it is alive or ready
AddCommands AddExportCommand;       // write a trained network as an ONNX file
AddCommands AddLogCommand;          // list the topics and pins of an embedded log, and release stale pins
AddCommands AddPeekCommand;         // show records of a topic, as they are and as the decoder sees them
AddCommands AddPoolCommands;        // pool, agent, submit, jobs, cancel: several jobs on one pool of hosts
AddCommands AddPublishCommand;      // replay files into a topic
AddCommands AddSchemaCommand;       // propose the schema of a job from a data file or a topic
AddCommands AddServeCommand;        // answer requests for predictions over HTTP
AddCommands AddSimulateCommand;     // run a job on a simulated cluster
AddCommands AddSoakCommand;         // run jobs with real processes and random faults, and check their counts
AddCommands AddStudyCommand;        // run a job on a grid of workers, servers and settings
AddCommands AddViewTokenCommand;    // show the token of observers, who may look at jobs and change nothing

// leat simulate --faults: many small jobs with random faults, from seed `first` on. Returns the exit status:
// 1 if a seed has failed.
int SimulateFaults(uint64_t first, uint64_t seeds, bool json);

}  // namespace leat
