// Functions on job files, schemas, checkpoints, and values of running jobs.
#include "job/job.h"

#include <nlohmann/json.hpp>

#include "compute/nn/layer.h"
#include "job/input/input_files.h"
#include "object.h"
#include "run/launcher/security.h"
#include "run/roles/follow/follower_role.h"
#include "storage/checkpoint/store.h"
#include "stream/csv/csv_settings.h"
#include "stream/inspect/inspect.h"
#include "variables.h"

namespace leat::python {
namespace {

using Json = nlohmann::ordered_json;

Json ShapeJson(const Shape& shape) {
  Json sizes = Json::array();
  for (size_t i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i]);
  return sizes;
}

Json DescribeJob(const job::Job& job) {
  static const char* const kRoles[] = {"trained", "statistic", "moments"};
  static const char* const kTasks[] = {"binary", "classes", "regression", "none"};
  const nn::Model& model = *job.model;
  Json variables = Json::array();
  for (const auto& variable : model.variables()) {
    variables.push_back({{"name", variable.name},
                         {"shape", ShapeJson(variable.shape)},
                         {"role", kRoles[static_cast<size_t>(variable.role)]}});
  }
  for (const auto& variable : model.frozen()) {
    variables.push_back(
        {{"name", variable.spec.name}, {"shape", ShapeJson(variable.spec.shape)}, {"role", "frozen"}});
  }
  Json labels = Json::array();
  for (const auto& field : job.schema.fields) {
    if (field.labels() > 0) labels.push_back({{"name", field.name}, {"values", field.values}});
  }
  return {{"name", job.name},
          {"features", job.schema.features()},
          {"labels", labels},
          {"input_shape", ShapeJson(model.input_shape())},
          {"outputs", model.outputs()},
          {"classes", model.classes()},
          {"task", kTasks[static_cast<size_t>(model.task())]},
          {"parameters", model.parameters()},
          {"model", model.ToString()},
          {"stream", job.stream->Describe()},
          {"optimizer", optim::Name(job.optimizer.kind)},
          {"strategy", protocol::Name(job.strategy.kind)},
          {"batch_size", job.batch_size},
          {"workers", job.workers},
          {"ps", job.servers},
          {"variables", variables},
          {"notes", job.notes}};
}

// describe_job(yaml, data, workers, ps) -> JSON
PyObject* DescribeJob(PyObject*, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    CheckNotForked();
    const char *yaml = nullptr, *data = nullptr;
    unsigned int workers = 0, servers = 0;
    if (!PyArg_ParseTuple(args, "ssII", &yaml, &data, &workers, &servers)) return nullptr;
    job::JobOverrides overrides;
    overrides.data = data;
    overrides.workers = workers;
    overrides.servers = servers;
    job::JobSource source;
    source.text = yaml;
    std::string text;
    {
      const WithoutLock without;
      const job::Job job = job::Job::Load(source, overrides);
      // Topics may be made later.
      if (job.stream->files() != nullptr) job::CheckReadable(job);
      text = DescribeJob(job).dump();
    }
    return ToPython(text);
  });
}

// schema_features(yaml, name) -> JSON: what the schema of a job alone says
PyObject* SchemaFeatures(PyObject*, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    CheckNotForked();
    const char *text = nullptr, *name = nullptr;
    if (!PyArg_ParseTuple(args, "ss", &text, &name)) return nullptr;
    const auto schema = stream::Schema::FromConfig(Config::Parse(text, name).At("schema"));
    Json fields = Json::array();
    for (const auto& field : schema.fields)
      fields.push_back({{"name", field.name}, {"features", field.features()}, {"labels", field.labels()}});
    const Json json = {{"features", schema.features()},
                       {"labels", schema.has_label() ? schema.labels() : 0},
                       {"classes", schema.classes()},
                       {"fields", fields}};
    return ToPython(json.dump());
  });
}

// infer_schema(file, label, rows, delimiter, encoding, quote, escape, decimal) -> YAML of stream and schema
PyObject* InferSchema(PyObject*, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    CheckNotForked();
    const char *file = nullptr, *label = nullptr, *encoding = nullptr;
    const char *delimiter = nullptr, *quote = nullptr, *escape = nullptr, *decimal = nullptr;
    unsigned long long rows = 0;
    if (!PyArg_ParseTuple(args, "ssKsssss", &file, &label, &rows, &delimiter, &encoding, &quote, &escape,
                          &decimal))
      return nullptr;
    stream::InspectOptions options{.rows = rows, .encoding = encoding};
    options.csv = stream::KnownFrom({delimiter, quote, escape, decimal}, "");
    const stream::ProposeOptions proposal{.path = file, .stream = "", .label = label};
    std::string text;
    {
      const WithoutLock without;
      const auto inspection = stream::Inspect(proposal.path, options);
      if (!inspection.ok()) Throw(inspection.status());
      try {
        text = stream::Propose(*inspection, proposal);
      } catch (const std::invalid_argument& e) {
        throw std::invalid_argument(proposal.path + ": " + e.what());
      }
    }
    return ToPython(text);
  });
}

// [(name, values, role)]; null with an exception. `owner` keeps the memory of `values`.
PyObject* ListOf(const std::shared_ptr<void>& owner, std::vector<std::vector<float>>& values,
                 const nn::Model& model) {
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (size_t v = 0; v < values.size(); ++v) {
    if (!AppendVariable(list.get(), model.variables()[v], owner, values[v].data())) return nullptr;
  }
  return AppendFrozen(list.get(), model) ? list.release() : nullptr;
}

// checkpoint(directory) -> ([(name, values, role)], warning)
PyObject* Checkpoint(PyObject*, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    CheckNotForked();
    const char* directory = nullptr;
    if (!PyArg_ParseTuple(args, "s", &directory)) return nullptr;
    std::shared_ptr<checkpoint::NewestVariables> newest;
    std::shared_ptr<const nn::Model> model;
    {
      const std::string path = directory;
      const WithoutLock without;
      job::JobSource source;
      source.resume = path;
      const job::Job job = job::Job::Load(source, {});
      auto read = checkpoint::ReadNewestVariables(job.directory, job.Slices());
      ThrowIfError(read.status());
      newest = std::make_shared<checkpoint::NewestVariables>(std::move(*read));
      model = job.model;
    }
    const Ref list(ListOf(newest, newest->variables, *model));
    if (!list) return nullptr;
    return Py_BuildValue("(Os)", list.get(), newest->warning.c_str());
  });
}

// values(addresses, token, security, trusted_network, seconds) -> [(name, values, role)]
PyObject* Values(PyObject*, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    CheckNotForked();
    const char *addresses = nullptr, *token = nullptr, *folder = nullptr;
    int trusted = 0;
    double seconds = 0;
    if (!PyArg_ParseTuple(args, "ssspd", &addresses, &token, &folder, &trusted, &seconds)) return nullptr;
    if (!(seconds > 0 && seconds <= 3600)) throw std::invalid_argument("seconds must be from 0 to 3600");
    roles::RoleOptions options;
    options.coordinator_client.coordinator = addresses;
    options.coordinator_client.token = token;
    const std::string security_folder = folder;
    std::optional<Result<roles::FetchedValues>> fetched;
    {
      const WithoutLock without;
      if (options.coordinator_client.token.empty()) {
        auto own = launcher::UserToken();
        ThrowIfError(own.status());
        options.coordinator_client.token = std::move(own).value();
      }
      const auto security = launcher::UserSecurity(security_folder, trusted != 0);
      ThrowIfError(security.status());
      options.coordinator_client.tls = security->tls;
      const auto deadline = std::chrono::duration<double>(seconds);
      fetched.emplace(roles::FetchValues(options, std::chrono::duration_cast<Duration>(deadline)));
    }
    if (!fetched->ok()) {
      SetError(fetched->status());
      return nullptr;
    }
    const auto values = std::make_shared<roles::FetchedValues>(std::move(**fetched));
    return ListOf(values, values->variables, *values->job.model);
  });
}

// layer_kinds() -> [str]
PyObject* LayerKinds(PyObject*, PyObject*) {
  return Guarded([&]() -> PyObject* {
    Ref list(PyList_New(0));
    if (!list) return nullptr;
    for (const auto& kind : nn::LayerKinds()) {
      Ref name(ToPython(std::string(kind.kind)));
      if (!name || PyList_Append(list.get(), name.get()) != 0) return nullptr;
    }
    return list.release();
  });
}

}  // namespace

bool AddJobFunctions(PyObject* module) {
  static PyMethodDef methods[] = {
      {"describe_job", DescribeJob, METH_VARARGS,
       "describe_job(yaml, data, workers, ps) -> JSON\n\nReads a job as leat train does."},
      {"schema_features", SchemaFeatures, METH_VARARGS, "schema_features(yaml, name) -> JSON"},
      {"infer_schema", InferSchema, METH_VARARGS,
       "infer_schema(file, label, rows, delimiter, encoding, quote, escape, decimal) -> YAML"},
      {"checkpoint", Checkpoint, METH_VARARGS,
       "checkpoint(directory) -> ([(name, values, role)], warning)\n\nThe newest one that is not damaged."},
      {"values", Values, METH_VARARGS,
       "values(addresses, token, security, trusted_network, seconds) -> [(name, values, role)]\n\n"
       "Those that a running job has now. Empty token: the user's."},
      {"layer_kinds", LayerKinds, METH_NOARGS, "layer_kinds() -> [str]"},
      {nullptr, nullptr, 0, nullptr}};
  return PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace leat::python
