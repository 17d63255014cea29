// Commands with their own source file. `result` is set to the exit status of the command.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "base/status.h"
#include "compute/engine/plan.h"
#include "net/rpc/client.h"

namespace leat {

// The kernels and graph passes of the program.
engine::PlanOptions Kernels();
// $LEAT_METRICS, the address of --metrics if none is given; empty: none.
std::string MetricsVariable();

// leat demo and leat train: run a job on this machine.
void AddTrainCommands(CLI::App& app, int* result);
// leat coordinator: start the coordinator of a job, or a standby of one.
void AddCoordinatorCommand(CLI::App& app, int* result);
// leat ps, worker, feed, bots: start a process of a job.
void AddRoleCommands(CLI::App& app, int* result);
// leat status, timeline, checkpoint, scale, drain, pause, continue, stop: commands for a running job.
void AddAdminCommands(CLI::App& app, int* result);

// leat advise: recommend machines and a strategy for a job, by simulation.
void AddAdviseCommand(CLI::App& app, int* result);
// leat calibrate: measure a job and a machine for the simulator.
void AddCalibrateCommand(CLI::App& app, int* result);
// leat cert: create a private certificate authority, and certificates for roles.
void AddCertCommand(CLI::App& app, int* result);
// leat dashboard: show a job in a browser, or a link to the page of one that runs.
void AddDashboardCommand(CLI::App& app, int* result);
// leat devices: show this machine's processors, caches and memory, and measure their speed.
void AddDevicesCommand(CLI::App& app, int* result);
// leat graph: show a job's compute graph and its kernels.
void AddGraphCommand(CLI::App& app, int* result);
// leat export: write a trained network as an ONNX file.
void AddExportCommand(CLI::App& app, int* result);
// leat health: ask a role whether it is alive or ready.
void AddHealthCommand(CLI::App& app, int* result);
// leat log: list the topics and pins of an embedded log, and release stale pins.
void AddLogCommand(CLI::App& app, int* result);
// leat peek: show records of a topic, as they are and as the decoder sees them.
void AddPeekCommand(CLI::App& app, int* result);
// leat pool, agent, submit, jobs, cancel: several jobs on one pool of hosts.
void AddPoolCommands(CLI::App& app, int* result);
// leat publish: replay files into a topic.
void AddPublishCommand(CLI::App& app, int* result);
// leat schema: propose the schema of a job from a data file or a topic.
void AddSchemaCommand(CLI::App& app, int* result);
// leat timeline: writes some seconds of activity of the job's processes to a file, and describes the file.
Status RecordTimeline(control::ControlClient& client, double seconds, const std::string& path);
// leat serve: answer requests for predictions over HTTP.
void AddServeCommand(CLI::App& app, int* result);
// leat simulate: run a job on a simulated cluster.
void AddSimulateCommand(CLI::App& app, int* result);
// leat soak: run jobs with real processes and random faults, and check their counts of events.
void AddSoakCommand(CLI::App& app, int* result);
// leat view-token: show the token of observers, who may look at jobs and change nothing.
void AddViewTokenCommand(CLI::App& app, int* result);

// leat study: run a job on a grid of workers, servers and settings, and find the sweet spot.
void AddStudyCommand(CLI::App& app, int* result);

}  // namespace leat
