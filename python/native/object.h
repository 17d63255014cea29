// Helpers of the module's sources: references, exceptions, the interpreter's lock, and arrays.
//
// The module uses the limited API of CPython 3.11, so that one binary serves all later versions.
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "base/status.h"

namespace leat::python {

// A reference that this side owns.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* object) : object_(object) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// A Python exception is set already.
struct PythonError {};

// Sets the exception that belongs to a status: ValueError for what the user can change, ConnectionError and
// TimeoutError for a coordinator that does not answer, otherwise RuntimeError.
void SetError(const Status& status);

// Sets an exception with a message of one line, whatever texts of a user are in it.
void SetError(PyObject* kind, const char* message);

// Calls f, which returns a new reference, and turns C++ exceptions into Python's.
template <class F>
PyObject* Guarded(F f) noexcept {
  try {
    return f();
  } catch (const PythonError&) {
  } catch (const std::invalid_argument& e) {
    SetError(PyExc_ValueError, e.what());
  } catch (const StatusError& e) {
    SetError(e.status());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    SetError(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

// Takes the interpreter's lock again. A thread that comes back while the interpreter ends waits here for the
// end of the process.
void TakeLock(PyThreadState* state) noexcept;

// Other Python threads run while it exists. Nothing of Python may be touched meanwhile.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() { TakeLock(state_); }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* const state_;
};

// The memory of an object with the buffer protocol, C-contiguous. Throws PythonError.
class View {
 public:
  explicit View(PyObject* object, bool writable = false);
  ~View() { PyBuffer_Release(&view_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  // The code of its elements in the words of the module struct, 'f'; 0 if they are other than rows and
  // labels may be.
  char format() const;
  const char* format_text() const { return view_.format == nullptr ? "B" : view_.format; }
  size_t dimensions() const { return static_cast<size_t>(view_.ndim); }
  size_t size(size_t dimension) const { return static_cast<size_t>(view_.shape[dimension]); }
  size_t elements() const;
  template <class T>
  T* as() const {
    return static_cast<T*>(view_.buf);
  }
  std::string ShapeText() const;  // "(128, 30)"

 private:
  Py_buffer view_{};
};

// A new object with the buffer protocol over f32 memory, which `owner` keeps alive.
PyObject* MakeArray(std::shared_ptr<void> owner, float* data, std::vector<int64_t> shape);

// Whether this is a child of the process that loaded the module: threads and connections do not come along
// with a fork.
bool Forked();
// Throws std::runtime_error if it is.
void CheckNotForked();

// A type's Py_tp_dealloc, which deletes the member `owned`. A forked child leaks it, since its destructor
// would wait for threads that the child does not have.
template <class Self, auto owned>
void Deallocate(PyObject* self) {
  auto* const pointer = reinterpret_cast<Self*>(self)->*owned;
  if (pointer != nullptr && !Forked()) {
    const WithoutLock without;
    delete pointer;
  }
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// Adds the types and functions of each source to the module; false: an exception is set.
bool AddArrayType(PyObject* module);
bool AddLearnerType(PyObject* module);
bool AddClientType(PyObject* module);
bool AddLogWriterType(PyObject* module);
bool AddJobFunctions(PyObject* module);

// UTF-8 of a str. Throws PythonError.
std::string Text(PyObject* text);
PyObject* ToPython(const std::string& text);

}  // namespace leat::python
