#include "lockstep/comm/types.h"

namespace lockstep::comm {

const char* name_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::Sum: return "sum";
    case ReduceOp::Avg: return "avg";
    case ReduceOp::Prod: return "prod";
    case ReduceOp::Min: return "min";
    case ReduceOp::Max: return "max";
  }
  return "unknown";
}

const char* name_of(Lane lane) noexcept { return lane == Lane::Urgent ? "urgent" : "bulk"; }

const char* name_of(Collective collective) noexcept {
  switch (collective) {
    case Collective::Barrier: return "barrier";
    case Collective::AllReduce: return "all_reduce";
    case Collective::ReduceScatter: return "reduce_scatter";
    case Collective::ReduceUpdate: return "reduce_update";
    case Collective::Reduce: return "reduce";
    case Collective::Broadcast: return "broadcast";
    case Collective::AllGather: return "all_gather";
    case Collective::Gather: return "gather";
    case Collective::Scatter: return "scatter";
    case Collective::AllToAll: return "all_to_all";
    case Collective::Send: return "send";
    case Collective::Recv: return "recv";
  }
  return "unknown";
}

const char* name_of(c10::ScalarType type) noexcept {
  switch (type) {
    case c10::ScalarType::Double: return "float64";
    case c10::ScalarType::Float: return "float32";
    case c10::ScalarType::Half: return "float16";
    case c10::ScalarType::BFloat16: return "bfloat16";
    case c10::ScalarType::Char: return "int8";
    case c10::ScalarType::Short: return "int16";
    case c10::ScalarType::Int: return "int32";
    case c10::ScalarType::Long: return "int64";
    case c10::ScalarType::Byte: return "uint8";
    case c10::ScalarType::UInt16: return "uint16";
    case c10::ScalarType::UInt32: return "uint32";
    case c10::ScalarType::UInt64: return "uint64";
    case c10::ScalarType::Bool: return "bool";
    default: return c10::toString(type);
  }
}

}  // namespace lockstep::comm
