#include "variables.h"

namespace leat::python {
namespace {

bool AppendEntry(PyObject* list, const optim::VariableSpec& variable, const char* role,
                 std::shared_ptr<void> owner, float* values) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < variable.shape.rank(); ++i) shape.push_back(variable.shape[i]);
  const Ref array(MakeArray(std::move(owner), values, std::move(shape)));
  const Ref entry(Py_BuildValue("(sOs)", variable.name.c_str(), array.get(), role));
  return entry && PyList_Append(list, entry.get()) == 0;
}

}  // namespace

bool AppendVariable(PyObject* list, const optim::VariableSpec& variable, std::shared_ptr<void> owner,
                    float* values) {
  static const char* const kRoles[] = {"trained", "statistic", "moments"};
  return AppendEntry(list, variable, kRoles[static_cast<size_t>(variable.role)], std::move(owner), values);
}

bool AppendFrozen(PyObject* list, const nn::Model& model) {
  for (const nn::FrozenVariable& variable : model.frozen()) {
    const auto values = variable.values.as<const float>();
    const auto copy = std::make_shared<std::vector<float>>(values.begin(), values.end());
    if (!AppendEntry(list, variable.spec, "frozen", copy, copy->data())) return false;
  }
  return true;
}

}  // namespace leat::python
