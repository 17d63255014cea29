// The module leat._native.

#include "base/log.h"
#include "object.h"

namespace {

int Execute(PyObject* module) {
  using namespace leat::python;
  // Errors become exceptions, so nothing is logged.
  spdlog::set_level(spdlog::level::off);
  return AddArrayType(module) && AddLearnerType(module) && AddClientType(module) &&
                 AddLogWriterType(module) && AddJobFunctions(module)
             ? 0
             : -1;
}

}  // namespace

PyMODINIT_FUNC PyInit__native() {
  static PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(Execute)}, {0, nullptr}};
  static PyModuleDef definition{PyModuleDef_HEAD_INIT,
                                "leat._native",
                                "What leat does in C++. Its interface may change; use the module leat.",
                                0,
                                nullptr,
                                slots,
                                nullptr,
                                nullptr,
                                nullptr};
  return PyModuleDef_Init(&definition);
}
