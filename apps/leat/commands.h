// Commands that have a file of their own.
#pragma once

#include <CLI/CLI.hpp>

#include "engine/plan.h"

namespace leat {

// The kernels and passes that the program computes with.
engine::PlanOptions Kernels();

// leat devices: what this machine computes with, and how fast.
void AddDevicesCommand(CLI::App& app, int* result);
// leat graph: what becomes of a job's network.
void AddGraphCommand(CLI::App& app, int* result);
// leat export: a trained network as an ONNX file.
void AddExportCommand(CLI::App& app, int* result);
// leat schema: what a job would say of a file of records.
void AddSchemaCommand(CLI::App& app, int* result);
// leat simulate: a job on a cluster that is not there.
void AddSimulateCommand(CLI::App& app, int* result);

}  // namespace leat
