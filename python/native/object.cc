#include "object.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace leat::python {

namespace {

std::atomic<bool> forked{false};

PyObject* ErrorFor(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kFailedPrecondition:
    case Code::kResourceExhausted:
      return PyExc_ValueError;
    case Code::kPermissionDenied:
      return PyExc_PermissionError;
    case Code::kUnavailable:
      return PyExc_ConnectionError;
    case Code::kDeadlineExceeded:
      return PyExc_TimeoutError;
    default:
      return PyExc_RuntimeError;
  }
}

}  // namespace

void SetError(const Status& status) {
  SetError(ErrorFor(status.code()), status.message().c_str());
}

void SetError(PyObject* kind, const char* message) {
  std::string line;
  for (const char* c = message; *c != 0; ++c) {
    if (*c == '\n') {
      line += "\\n";
    } else {
      line += static_cast<unsigned char>(*c) < 0x20 ? ' ' : *c;
    }
  }
  const Ref text(ToPython(line));
  if (text) PyErr_SetObject(kind, text.get());
}

void TakeLock(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    // Up to CPython 3.13 this is pthread_exit. Its unwinding would end the process at the first noexcept, and
    // run destructors that touch Python's objects.
    for (;;) pause();
  }
}

View::View(PyObject* object, bool writable) {
  const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, &view_, flags) != 0) throw PythonError();
}

char View::format() const {
  const char* text = format_text();
  if (*text == '@' || *text == '=' || *text == '<') ++text;
  if (text[0] == 0 || text[1] != 0) return '\0';
  // A letter has another size where '<' or '=' asks for the standard ones.
  static constexpr std::pair<const char*, Py_ssize_t> kSizes[] = {{"B?", 1}, {"h", 2}, {"if", 4}, {"lqd", 8}};
  for (const auto& [codes, size] : kSizes) {
    if (std::strchr(codes, text[0]) != nullptr && view_.itemsize == size) return text[0];
  }
  return '\0';
}

size_t View::elements() const {
  size_t elements = 1;
  for (size_t i = 0; i < dimensions(); ++i) elements *= size(i);
  return elements;
}

std::string View::ShapeText() const {
  std::string text = "(";
  for (size_t i = 0; i < dimensions(); ++i) text += (i > 0 ? ", " : "") + std::to_string(size(i));
  return text + (dimensions() == 1 ? ",)" : ")");
}

bool Forked() {
  return forked.load(std::memory_order_relaxed);
}

void CheckNotForked() {
  if (Forked()) {
    throw std::runtime_error(
        "leat cannot be used in a process that was forked after leat was imported; start it with the method "
        "spawn (multiprocessing.set_start_method)");
  }
}

// ---- arrays

namespace {

struct Array {
  PyObject_HEAD std::shared_ptr<void>* owner;
  float* data;
  std::vector<Py_ssize_t>* shape;  // then the strides
};

PyTypeObject* array_type = nullptr;

void FreeObject(PyObject* self) {
  auto* array = reinterpret_cast<Array*>(self);
  if (!Forked()) delete array->owner;
  delete array->shape;
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const auto* array = reinterpret_cast<Array*>(self);
  const auto dimensions = static_cast<int>(array->shape->size() / 2);
  Py_ssize_t elements = 1;
  for (int i = 0; i < dimensions; ++i) elements *= (*array->shape)[static_cast<size_t>(i)];
  static char format[] = "f";
  view->buf = array->data;
  view->obj = self;
  Py_INCREF(self);
  view->len = elements * static_cast<Py_ssize_t>(sizeof(float));
  view->itemsize = sizeof(float);
  view->readonly = 0;
  view->ndim = dimensions;
  view->format = (flags & PyBUF_FORMAT) != 0 ? format : nullptr;
  view->shape = (flags & PyBUF_ND) != 0 ? array->shape->data() : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? array->shape->data() + dimensions : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  return 0;
}

}  // namespace

PyObject* MakeArray(std::shared_ptr<void> owner, float* data, std::vector<int64_t> shape) {
  auto sizes = std::make_unique<std::vector<Py_ssize_t>>(shape.begin(), shape.end());
  sizes->resize(2 * shape.size());
  Py_ssize_t stride = sizeof(float);
  for (size_t i = shape.size(); i-- > 0;) {
    (*sizes)[shape.size() + i] = stride;
    stride *= static_cast<Py_ssize_t>(shape[i]);
  }
  auto kept = std::make_unique<std::shared_ptr<void>>(std::move(owner));
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(array_type, Py_tp_alloc));
  PyObject* const self = allocate(array_type, 0);
  if (self == nullptr) throw PythonError();
  auto* array = reinterpret_cast<Array*>(self);
  array->owner = kept.release();
  array->data = data;
  array->shape = sizes.release();
  return self;
}

bool AddArrayType(PyObject* module) {
  static char doc[] =
      "Numbers of type float32 in memory of leat; numpy.asarray makes an array of them without a copy.";
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(FreeObject)},
                         {Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)},
                         {Py_tp_doc, doc},
                         {0, nullptr}};
  PyType_Spec spec{"leat._native.Array", sizeof(Array), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  array_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (array_type == nullptr) return false;
  pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  return PyModule_AddObjectRef(module, "Array", reinterpret_cast<PyObject*>(array_type)) == 0;
}

std::string Text(PyObject* text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) throw PythonError();
  return {bytes, static_cast<size_t>(size)};
}

PyObject* ToPython(const std::string& text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

}  // namespace leat::python
