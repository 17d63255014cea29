// leat._native.LogWriter: appends records to a topic of the embedded log.
#include "stream/log/log.h"

#include <mutex>

#include "object.h"

namespace leat::python {
namespace {

struct SharedLog {
  std::mutex mutex;
  std::unique_ptr<stream::TopicWriter> writer;
};

struct LogSelf {
  PyObject_HEAD std::shared_ptr<SharedLog>* shared;
};

std::shared_ptr<SharedLog> LogOf(PyObject* self) {
  CheckNotForked();
  const auto* shared = reinterpret_cast<LogSelf*>(self)->shared;
  if (shared == nullptr) throw std::runtime_error("this writer was not made");
  return *shared;
}

PyObject* NewLog(PyTypeObject* type, PyObject* args, PyObject*) {
  return Guarded([&]() -> PyObject* {
    CheckNotForked();
    const char *directory = nullptr, *topic = nullptr;
    unsigned int partitions = 0;
    if (!PyArg_ParseTuple(args, "ssI", &directory, &topic, &partitions)) return nullptr;
    if (partitions < 1 || partitions > stream::EmbeddedLog::kMaxPartitions)
      throw std::invalid_argument("partitions: " + std::to_string(partitions) + "; must be from 1 to 1024");
    auto shared = std::make_shared<SharedLog>();
    const std::string folder = directory, name = topic;
    Status status;
    {
      const WithoutLock without;
      status = stream::EmbeddedLog::Create(folder, name, {.partitions = partitions});
      if (status.ok()) {
        auto writer = stream::LogWriter::Open(folder, name);
        status = writer.status();
        if (writer.ok()) shared->writer = std::move(*writer);
      }
    }
    if (!status.ok()) {
      SetError(status);
      return nullptr;
    }
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject* const self = allocate(type, 0);
    if (self == nullptr) return nullptr;
    reinterpret_cast<LogSelf*>(self)->shared = new std::shared_ptr<SharedLog>(std::move(shared));
    return self;
  });
}

// append(partition, [bytes]) -> offset of the first
PyObject* Append(PyObject* self, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    const auto shared = LogOf(self);
    unsigned int partition = 0;
    PyObject* list = nullptr;
    if (!PyArg_ParseTuple(args, "IO", &partition, &list)) return nullptr;
    if (!PyList_Check(list)) throw std::invalid_argument("append takes a list of bytes");
    // Held here, since another thread could change the list.
    std::vector<Ref> held;
    std::vector<std::string_view> records;
    for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
      PyObject* const record = PyList_GetItem(list, i);
      char* bytes = nullptr;
      Py_ssize_t size = 0;
      if (record == nullptr || PyBytes_AsStringAndSize(record, &bytes, &size) != 0) return nullptr;
      Py_INCREF(record);
      held.emplace_back(record);
      records.emplace_back(bytes, static_cast<size_t>(size));
    }
    if (partition >= shared->writer->partitions())
      throw std::invalid_argument("partition " + std::to_string(partition) + " of " +
                                  std::to_string(shared->writer->partitions()));
    Result<uint64_t> first = uint64_t{0};
    {
      const WithoutLock without;
      const std::lock_guard lock(shared->mutex);
      first = shared->writer->Append(partition, records);
    }
    if (!first.ok()) {
      SetError(first.status());
      return nullptr;
    }
    return PyLong_FromUnsignedLongLong(*first);
  });
}

// seal()
PyObject* Seal(PyObject* self, PyObject*) {
  return Guarded([&]() -> PyObject* {
    const auto shared = LogOf(self);
    Status status;
    {
      const WithoutLock without;
      const std::lock_guard lock(shared->mutex);
      status = shared->writer->Seal();
    }
    if (!status.ok()) {
      SetError(status);
      return nullptr;
    }
    Py_RETURN_NONE;
  });
}

}  // namespace

bool AddLogWriterType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"append", Append, METH_VARARGS, "append(partition, records) -> offset of the first"},
      {"seal", Seal, METH_NOARGS, "seal()\n\nNo record follows."},
      {nullptr, nullptr, 0, nullptr}};
  static char doc[] =
      "LogWriter(directory, topic, partitions)\n\nAppends records to a topic of the embedded log.";
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(NewLog)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(Deallocate<LogSelf, &LogSelf::shared>)},
                         {Py_tp_methods, methods},
                         {Py_tp_doc, doc},
                         {0, nullptr}};
  PyType_Spec spec{"leat._native.LogWriter", sizeof(LogSelf), 0, Py_TPFLAGS_DEFAULT, slots};
  const Ref type(PyType_FromSpec(&spec));
  return type && PyModule_AddObjectRef(module, "LogWriter", type.get()) == 0;
}

}  // namespace leat::python
