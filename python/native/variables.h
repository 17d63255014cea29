// Lists of a model's variables for Python: [(name, values, role)].
#pragma once

#include <memory>

#include "compute/nn/model.h"
#include "object.h"

namespace leat::python {

// Appends a variable, whose `values` belong to `owner`. False: an exception is set.
bool AppendVariable(PyObject* list, const optim::VariableSpec& variable, std::shared_ptr<void> owner,
                    float* values);

// Appends copies of the model's frozen variables. False: an exception is set.
bool AppendFrozen(PyObject* list, const nn::Model& model);

}  // namespace leat::python
