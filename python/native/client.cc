// leat._native.Client: status and administration of a running job.
#include "net/rpc/client.h"

#include <cstdio>
#include <optional>

#include "job/job.h"
#include "object.h"
#include "run/launcher/admin.h"
#include "run/launcher/security.h"

namespace leat::python {
namespace {

struct ClientSelf {
  PyObject_HEAD std::shared_ptr<control::ControlClient>* client;
};

std::shared_ptr<control::ControlClient> ClientOf(PyObject* self) {
  CheckNotForked();
  const auto* client = reinterpret_cast<ClientSelf*>(self)->client;
  if (client == nullptr) throw std::runtime_error("this client was not made");
  return *client;
}

PyObject* NewClient(PyTypeObject* type, PyObject* args, PyObject*) {
  return Guarded([&]() -> PyObject* {
    CheckNotForked();
    const char *addresses = nullptr, *token = nullptr, *folder = nullptr;
    int trusted = 0;
    if (!PyArg_ParseTuple(args, "sssp", &addresses, &token, &folder, &trusted)) return nullptr;
    std::string secret = token;
    if (secret.empty()) {
      auto own = launcher::UserToken();
      ThrowIfError(own.status());
      secret = std::move(own).value();
    }
    auto security = launcher::UserSecurity(folder, trusted != 0);
    ThrowIfError(security.status());
    std::shared_ptr<control::ControlClient> client =
        control::ControlClient::Make(addresses, secret, security->tls);
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject* const self = allocate(type, 0);
    if (self == nullptr) return nullptr;
    reinterpret_cast<ClientSelf*>(self)->client =
        new std::shared_ptr<control::ControlClient>(std::move(client));
    return self;
  });
}

// status(seconds) -> JSON
PyObject* ShowStatus(PyObject* self, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    const auto client = ClientOf(self);
    double seconds = 5;
    if (!PyArg_ParseTuple(args, "|d", &seconds)) return nullptr;
    if (!(seconds > 0 && seconds <= 3600)) throw std::invalid_argument("seconds must be from 0 to 3600");
    std::optional<Result<protocol::ControlReply>> reply;
    {
      const WithoutLock without;
      reply.emplace(client->Call(protocol::StatusRequest{}, std::chrono::duration_cast<Duration>(
                                                                std::chrono::duration<double>(seconds))));
    }
    if (!reply->ok()) {
      SetError(reply->status());
      return nullptr;
    }
    const auto* status = std::get_if<protocol::StatusReply>(&**reply);
    if (status == nullptr) throw std::runtime_error("the coordinator sent a reply of the wrong type");
    return ToPython(status->json);
  });
}

PyObject* Administer(PyObject* self, const protocol::AdminRequest& request) {
  const auto client = ClientOf(self);
  Status status;
  {
    const WithoutLock without;
    std::FILE* const nowhere = std::fopen("/dev/null", "w");
    status = launcher::RunAdmin(*client, request, nowhere != nullptr ? nowhere : stderr);
    if (nowhere != nullptr) std::fclose(nowhere);
  }
  if (!status.ok()) {
    SetError(status);
    return nullptr;
  }
  Py_RETURN_NONE;
}

template <protocol::AdminRequest::Kind kind>
PyObject* Order(PyObject* self, PyObject*) {
  return Guarded([&] { return Administer(self, {.kind = kind}); });
}

// scale(workers, ps): "" and -1 for as before
PyObject* Scale(PyObject* self, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    const char* workers = nullptr;
    long long servers = -1;
    if (!PyArg_ParseTuple(args, "sL", &workers, &servers)) return nullptr;
    protocol::AdminRequest request{.kind = protocol::AdminRequest::Kind::kScale};
    if (*workers != 0) {
      const auto range = job::ParseWorkerRange(workers);
      if (!range.ok()) throw std::invalid_argument("workers: " + range.status().message());
      request.workers = *range;
    }
    if (servers > 1000) throw std::invalid_argument("ps: " + std::to_string(servers) + "; at most 1000");
    if (servers >= 0) request.servers = static_cast<uint32_t>(servers);
    return Administer(self, request);
  });
}

// drain(member): "worker 3"
PyObject* Drain(PyObject* self, PyObject* args) {
  return Guarded([&]() -> PyObject* {
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "s", &name)) return nullptr;
    const auto request = launcher::DrainRequest(name);
    if (!request.ok()) throw std::invalid_argument(request.status().message());
    return Administer(self, *request);
  });
}

PyObject* Abort(PyObject* self, PyObject*) {
  return Guarded([&]() -> PyObject* {
    ClientOf(self)->Abort();
    Py_RETURN_NONE;
  });
}

// random_token() -> str
PyObject* RandomToken(PyObject*, PyObject*) {
  return Guarded([&] { return ToPython(launcher::RandomToken()); });
}

}  // namespace

bool AddClientType(PyObject* module) {
  using Kind = protocol::AdminRequest::Kind;
  static PyMethodDef methods[] = {
      {"status", ShowStatus, METH_VARARGS, "status(seconds=5) -> JSON"},
      {"checkpoint", Order<Kind::kCheckpoint>, METH_NOARGS, "checkpoint()\n\nReturns when it is written."},
      {"stop", Order<Kind::kStop>, METH_NOARGS, "stop()\n\nEnds the job after a last checkpoint."},
      {"discard", Order<Kind::kDiscard>, METH_NOARGS, "discard()\n\nEnds the job without a checkpoint."},
      {"pause", Order<Kind::kPause>, METH_NOARGS, "pause()"},
      {"go_on", Order<Kind::kContinue>, METH_NOARGS, "go_on()"},
      {"scale", Scale, METH_VARARGS, "scale(workers, ps)"},
      {"drain", Drain, METH_VARARGS, "drain(member)"},
      {"abort", Abort, METH_NOARGS,
       "abort()\n\nEnds the calls of all threads; the client cannot be used again."},
      {nullptr, nullptr, 0, nullptr}};
  static char doc[] =
      "Client(addresses, token, security, trusted_network)\n\nA running job. Empty token: the user's.";
  PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(NewClient)},
      {Py_tp_dealloc, reinterpret_cast<void*>(Deallocate<ClientSelf, &ClientSelf::client>)},
      {Py_tp_methods, methods},
      {Py_tp_doc, doc},
      {0, nullptr}};
  PyType_Spec spec{"leat._native.Client", sizeof(ClientSelf), 0, Py_TPFLAGS_DEFAULT, slots};
  static PyMethodDef functions[] = {{"random_token", RandomToken, METH_NOARGS, "random_token() -> str"},
                                    {nullptr, nullptr, 0, nullptr}};
  const Ref type(PyType_FromSpec(&spec));
  return PyModule_AddFunctions(module, functions) == 0 && type &&
         PyModule_AddObjectRef(module, "Client", type.get()) == 0;
}

}  // namespace leat::python
