// leat._native.Learner: leat::Learner for Python.
#include "train/learner/learner.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/config/config.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/onnx/network.h"
#include "compute/ops/passes.h"
#include "object.h"
#include "variables.h"

namespace leat::python {
namespace {

// A learner for one thread at a time; the others wait without the interpreter's lock.
struct SharedLearner {
  explicit SharedLearner(Learner::Options options) : learner(std::move(options)) {}
  std::mutex mutex;
  Learner learner;
  std::vector<float> labels;  // labels of the current batch
};

PyObject* not_finite_error = nullptr;

struct LearnerSelf {
  PyObject_HEAD std::shared_ptr<SharedLearner>* shared;
};

SharedLearner& LearnerOf(PyObject* self) {
  CheckNotForked();
  const auto* shared = reinterpret_cast<LearnerSelf*>(self)->shared;
  if (shared == nullptr) throw std::runtime_error("this learner was not made");
  return **shared;
}

// Runs f(learner) without the interpreter's lock.
template <class F>
auto Exclusive(SharedLearner& shared, F f) {
  const WithoutLock without;
  const std::lock_guard lock(shared.mutex);
  return f();
}

Learner::Options Read(const std::string& settings, const std::string& name, const std::string& data,
                      uint32_t features, uint32_t labels) {
  const Config config = Config::Parse(settings, name);
  config.Allow({"model", "optimizer", "batch_size", "seed", "intra_op_threads", "running"});
  std::vector<uint32_t> running;
  if (config.Has("running")) {
    const Config list = config.At("running");
    for (size_t i = 0; i < list.size(); ++i) running.push_back(static_cast<uint32_t>(list[i].Integer()));
  }
  Learner::Options options{
      .model = nullptr, .optimizer = optim::FromConfig(config.At("optimizer")), .plan = {}};
  options.seed = static_cast<uint64_t>(config.Integer("seed", 1, 0, int64_t{1} << 53));
  options.model = std::make_shared<const nn::Model>(
      nn::Model::FromConfig(config.At("model"), {.features = features,
                                                 .labels = labels,
                                                 .running = running,
                                                 .files = {.data = data, .copies = {}},
                                                 .kinds = onnx::LayerKinds(),
                                                 .seed = options.seed}));
  options.batch_size = static_cast<uint32_t>(config.Integer("batch_size", 128, 1, 1 << 16));
  options.plan.tables = {&cpu::Table(), &reference::Kernels()};
  options.plan.passes = ops::StandardPasses();
  options.plan.intra_op_threads = static_cast<int>(config.Integer("intra_op_threads", 1, 0, 1024));
  return options;
}

PyObject* NewLearner(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return Guarded([&]() -> PyObject* {
    CheckNotForked();
    static char a[] = "settings", b[] = "name", c[] = "data", d[] = "features", e[] = "labels";
    static char* names[] = {a, b, c, d, e, nullptr};
    const char *settings = nullptr, *name = nullptr, *data = nullptr;
    unsigned int features = 0, labels = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sssII", names, &settings, &name, &data, &features,
                                     &labels))
      return nullptr;
    std::shared_ptr<SharedLearner> made;
    {
      const std::string text = settings, place = name, folder = data;
      const WithoutLock without;
      made = std::make_shared<SharedLearner>(Read(text, place, folder, features, labels));
    }
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject* const self = allocate(type, 0);
    if (self == nullptr) return nullptr;
    reinterpret_cast<LearnerSelf*>(self)->shared = new std::shared_ptr<SharedLearner>(std::move(made));
    return self;
  });
}

// Rows of f32, of the model's inputs.
size_t RowsOf(const View& view, const Learner& learner) {
  if (view.format() != 'f')
    throw std::invalid_argument(std::string("rows of '") + view.format_text() + "'; they must be of float32");
  const size_t width = learner.model().inputs();
  const size_t rows = view.dimensions() < 2 ? 0 : view.size(0);
  if (view.dimensions() < 2 || view.elements() != rows * width) {
    throw std::invalid_argument("rows of the shape " + view.ShapeText() + "; the model has " +
                                std::to_string(width) + " inputs a row");
  }
  return rows;
}

// Labels of another type than f32. Classes must be whole numbers below `classes`; 0: any numbers.
template <class T>
void Convert(const T* from, size_t n, uint32_t classes, std::vector<float>* to) {
  to->resize(n);
  if (classes == 0) {
    std::transform(from, from + n, to->begin(), [](T x) { return static_cast<float>(x); });
    return;
  }
  // A type that has the number of classes, which a small one of labels may not.
  using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  bool good = true;
  for (size_t i = 0; i < n; ++i) {
    const Wide x = from[i];
    (*to)[i] = static_cast<float>(x);
    good = good && x >= Wide{0} && x < static_cast<Wide>(classes) &&
           static_cast<Wide>(static_cast<int64_t>(x)) == x;
  }
  if (good) return;
  for (size_t i = 0; i < n; ++i) {
    const auto x = static_cast<double>(from[i]);
    if (x >= 0 && x < classes && x == std::floor(x)) continue;
    char text[64];
    std::snprintf(text, sizeof text, "%g", x);
    throw std::invalid_argument("label " + std::string(text) + " in row " + std::to_string(i) +
                                "; must be a whole number from 0 to " + std::to_string(classes - 1));
  }
}

void ConvertLabels(const View& view, const Learner& learner, std::vector<float>* labels) {
  const uint32_t classes = learner.model().classes();
  const size_t n = view.elements();
  switch (view.format()) {
    case 'f':
      return Convert(view.as<float>(), n, classes, labels);
    case 'd':
      return Convert(view.as<double>(), n, classes, labels);
    case 'l':
    case 'q':
      return Convert(view.as<int64_t>(), n, classes, labels);
    case 'i':
      return Convert(view.as<int32_t>(), n, classes, labels);
    case 'h':
      return Convert(view.as<int16_t>(), n, classes, labels);
    case 'B':
    case '?':
      return Convert(view.as<uint8_t>(), n, classes, labels);
    default:
      throw std::invalid_argument(
          std::string("labels of '") + view.format_text() +
          "'; they must be numbers of float32, float64, int64, int32, int16 or uint8");
  }
}

// learn(rows, labels) -> (events, sum of losses, correct, sum of absolute errors)
PyObject* Learn(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return Guarded([&]() -> PyObject* {
    SharedLearner& shared = LearnerOf(self);
    if (count != 2) throw std::invalid_argument("learn takes rows and labels");
    const View rows(args[0]), labels(args[1]);
    const size_t n = RowsOf(rows, shared.learner), each = shared.learner.model().labels();
    if (labels.elements() != n * each || labels.dimensions() == 0 || labels.size(0) != n) {
      throw std::invalid_argument("labels of the shape " + labels.ShapeText() + " for " + std::to_string(n) +
                                  " rows of " + std::to_string(each));
    }
    const step::StepOutcome outcome = Exclusive(shared, [&] {
      ConvertLabels(labels, shared.learner, &shared.labels);
      return shared.learner.Learn(
          {.features = std::span(rows.as<float>(), rows.elements()), .labels = shared.labels, .truth = {}});
    });
    if (!outcome.finite) {
      const std::string text =
          "the loss or a gradient is not finite, so " + std::to_string(n - outcome.events) + " of " +
          std::to_string(n) +
          " rows were left out: they have NaN or infinity, or the learning rate is too high";
      SetError(not_finite_error, text.c_str());
      return nullptr;
    }
    return Py_BuildValue("(IdKd)", outcome.events, outcome.loss_sum,
                         static_cast<unsigned long long>(outcome.correct), outcome.absolute_error);
  });
}

// check_ids(rows)
PyObject* CheckIds(PyObject* self, PyObject* rows) {
  return Guarded([&]() -> PyObject* {
    SharedLearner& shared = LearnerOf(self);
    const View view(rows);
    RowsOf(view, shared.learner);
    shared.learner.CheckIds(std::span(view.as<float>(), view.elements()));
    Py_RETURN_NONE;
  });
}

// predict(rows, scores): fills the second array
PyObject* Predict(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return Guarded([&]() -> PyObject* {
    SharedLearner& shared = LearnerOf(self);
    if (count != 2) throw std::invalid_argument("predict takes rows and an array for their scores");
    const View rows(args[0]), scores(args[1], true);
    const size_t n = RowsOf(rows, shared.learner);
    if (scores.format() != 'f' || scores.elements() != n * shared.learner.scores_per_row()) {
      throw std::invalid_argument("scores of the shape " + scores.ShapeText() + " for " + std::to_string(n) +
                                  " rows; " + std::to_string(shared.learner.scores_per_row()) +
                                  " of float32 a row");
    }
    Exclusive(shared, [&] {
      shared.learner.Predict(std::span(rows.as<float>(), rows.elements()),
                             std::span(scores.as<float>(), scores.elements()));
      return 0;
    });
    Py_RETURN_NONE;
  });
}

// variables() -> [(name, values, role)], without copies of what is trained
PyObject* Variables(PyObject* self, PyObject*) {
  return Guarded([&]() -> PyObject* {
    SharedLearner& shared = LearnerOf(self);
    const nn::Model& model = shared.learner.model();
    Ref list(PyList_New(0));
    if (!list) return nullptr;
    for (size_t v = 0; v < model.variables().size(); ++v) {
      if (!AppendVariable(list.get(), model.variables()[v], *reinterpret_cast<LearnerSelf*>(self)->shared,
                          shared.learner.values(v).data()))
        return nullptr;
    }
    return AppendFrozen(list.get(), model) ? list.release() : nullptr;
  });
}

// save() -> (bytes, steps, events)
PyObject* Save(PyObject* self, PyObject*) {
  return Guarded([&]() -> PyObject* {
    SharedLearner& shared = LearnerOf(self);
    uint64_t steps = 0, events = 0;
    const std::vector<float> memory = Exclusive(shared, [&] {
      steps = shared.learner.steps();
      events = shared.learner.events();
      return shared.learner.Save();
    });
    return Py_BuildValue("(y#KK)", reinterpret_cast<const char*>(memory.data()),
                         static_cast<Py_ssize_t>(memory.size() * sizeof(float)),
                         static_cast<unsigned long long>(steps), static_cast<unsigned long long>(events));
  });
}

// load(bytes, steps, events)
PyObject* Load(PyObject* self, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    SharedLearner& shared = LearnerOf(self);
    PyObject* bytes = nullptr;
    unsigned long long steps = 0, events = 0;
    if (!PyArg_ParseTuple(args, "OKK", &bytes, &steps, &events)) return nullptr;
    const View view(bytes);
    if (view.elements() * sizeof(char) % sizeof(float) != 0 || (view.format() != 'B' && view.format() != 'f'))
      throw std::invalid_argument("what is loaded is not what save gave");
    std::vector<float> memory(view.format() == 'f' ? view.elements() : view.elements() / sizeof(float));
    std::copy_n(view.as<char>(), memory.size() * sizeof(float), reinterpret_cast<char*>(memory.data()));
    const Status status = Exclusive(shared, [&] { return shared.learner.Load(memory, steps, events); });
    if (!status.ok()) throw std::invalid_argument(status.message());
    Py_RETURN_NONE;
  });
}

PyObject* DescribeLearner(PyObject* self, PyObject*) {
  return Guarded([&]() -> PyObject* {
    const SharedLearner& shared = LearnerOf(self);
    const nn::Model& model = shared.learner.model();
    static const char* const kTasks[] = {"binary", "classes", "regression", "none"};
    return Py_BuildValue(
        "{s:I,s:I,s:I,s:I,s:s,s:K,s:s}", "inputs", model.inputs(), "labels", model.labels(), "outputs",
        model.outputs(), "classes", model.classes(), "task", kTasks[static_cast<size_t>(model.task())],
        "parameters", static_cast<unsigned long long>(model.parameters()), "text", model.ToString().c_str());
  });
}

PyObject* Ids(PyObject* self, void*) {
  return Guarded([&]() -> PyObject* {
    const std::vector<uint32_t> limits = LearnerOf(self).learner.model().feature_ids();
    Ref list(PyList_New(static_cast<Py_ssize_t>(limits.size())));
    if (!list) return nullptr;
    for (size_t i = 0; i < limits.size(); ++i) {
      PyObject* const limit = PyLong_FromUnsignedLong(limits[i]);
      if (limit == nullptr || PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), limit) != 0)
        return nullptr;
    }
    return list.release();
  });
}

PyObject* Steps(PyObject* self, void*) {
  return Guarded([&] {
    SharedLearner& shared = LearnerOf(self);
    return PyLong_FromUnsignedLongLong(Exclusive(shared, [&] { return shared.learner.steps(); }));
  });
}

PyObject* Events(PyObject* self, void*) {
  return Guarded([&] {
    SharedLearner& shared = LearnerOf(self);
    return PyLong_FromUnsignedLongLong(Exclusive(shared, [&] { return shared.learner.events(); }));
  });
}

}  // namespace

bool AddLearnerType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"learn", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Learn)), METH_FASTCALL,
       "learn(rows, labels) -> (events, loss_sum, correct, absolute_error)\n\nTrains rows of float32, one "
       "step for "
       "each batch."},
      {"check_ids", CheckIds, METH_O,
       "check_ids(rows)\n\nRaises ValueError for an id in the rows that is not in its table, as learn and "
       "predict do."},
      {"predict", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Predict)), METH_FASTCALL,
       "predict(rows, scores)\n\nWrites the scores of the rows into an array of float32."},
      {"variables", Variables, METH_NOARGS,
       "variables() -> [(name, values, role)]\n\nThe values are those that the learner works with."},
      {"save", Save, METH_NOARGS, "save() -> (state, steps, events)"},
      {"load", Load, METH_VARARGS, "load(state, steps, events)"},
      {"describe", DescribeLearner, METH_NOARGS, "describe() -> dict"},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef properties[] = {
      {"steps", Steps, nullptr, "Steps so far.", nullptr},
      {"events", Events, nullptr, "Rows learned so far.", nullptr},
      {"ids", Ids, nullptr,
       "For each input: if > 0, a whole number below it indexes a table. Empty: "
       "no input does.",
       nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static char doc[] =
      "Learner(settings, name, data, features, labels)\n\nA model that learns in this process. `settings`: "
      "YAML with "
      "model, optimizer, batch_size and seed; `name` stands for it in messages.";
  PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(NewLearner)},
      {Py_tp_dealloc, reinterpret_cast<void*>(Deallocate<LearnerSelf, &LearnerSelf::shared>)},
      {Py_tp_methods, methods},
      {Py_tp_getset, properties},
      {Py_tp_doc, doc},
      {0, nullptr}};
  PyType_Spec spec{"leat._native.Learner", sizeof(LearnerSelf), 0, Py_TPFLAGS_DEFAULT, slots};
  const Ref type(PyType_FromSpec(&spec));
  not_finite_error = PyErr_NewExceptionWithDoc("leat.NotFiniteError",
                                               "The loss or a gradient of a batch is not finite. The batch "
                                               "was left out; others of the same call were trained.",
                                               PyExc_ValueError, nullptr);
  return type && not_finite_error != nullptr && PyModule_AddObjectRef(module, "Learner", type.get()) == 0 &&
         PyModule_AddObjectRef(module, "NotFiniteError", not_finite_error) == 0;
}

}  // namespace leat::python
