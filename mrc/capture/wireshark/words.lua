-- Words of the Info column, as `mrc dissect` has them

local function opcode_name(opcode)
  return OPCODES[opcode] and OPCODES[opcode].name or ("Unknown opcode 0x%02x"):format(opcode)
end

local function name_of(header, field_name, number)
  for _, field in ipairs(HEADERS[header].fields) do
    if field.name == field_name then return field.names[number] end
  end
end

local WORDS = {
  meth = function(v) return ("MSN=%d"):format(v.msn) .. (v.rqmsn ~= 0 and (" RQMSN=%d"):format(v.rqmsn) or "") end,
  tseth = function(v) return ("TS=%d"):format(v.tx_timestamp) end,
  reth = function(v) return ("VA=0x%s Len=%d"):format(v.va, v.dmalen) end,
  immdt = function(v) return ("Imm=0x%08x"):format(v.data) end,
  aeth = function(v)
    local name = v.syndrome < 0x20 and "ACK" or name_of("aeth", "syndrome", v.syndrome)
    return ("%s MSN=%d"):format(name or ("syndrome 0x%02x"):format(v.syndrome), v.msn)
  end,
  seth = function(v)
    local answer = v.pr ~= 0 and ("probe_id=%d"):format(v.probe_id)
      or ("ack=%d"):format((v.cack_psn + v.ack_psn_offset) % PSNS)
    local words = ("cack=%d %s EV=0x%08x"):format(v.cack_psn, answer, v.entropy)
    if v.m ~= 0 then words = ("%s [%s]"):format(words, name_of("seth", "m", v.m)) end
    if v.bitmap ~= "0" then words = ("%s bitmap=%+d:0x%s"):format(words, v.sack_offset, v.bitmap) end
    return words
  end,
  cc_state = function(v) return v.ooo_count ~= 0 and ("ooo=%d"):format(v.ooo_count) end,
  neth = function(v)
    local name = name_of("neth", "reason", v.reason) or ("reason 0x%02x"):format(v.reason)
    return ("%s nack=%d EV=0x%08x"):format(name, v.nack_psn, v.entropy)
  end,
  peth = function(v) return ("probe_id=%d"):format(v.probe_id) end,
  erth = function(v)
    local ports = v.op == 0 and (" ports=0x%x"):format(v.port_status_mask) or ""
    return (name_of("erth", "op", v.op) or ("op %d"):format(v.op)) .. ports
  end,
  eeth = function(v) return name_of("eeth", "op", v.op) or ("op %d"):format(v.op) end,
}

-- The EV of the packet that is spoken of: an answer names that of the packet it answers.
local function bth_words(bth, ev)
  local words = ("MRC %s QP=0x%06x PSN=%d"):format(opcode_name(bth.opcode), bth.dqp, bth.psn)
  local opcode = OPCODES[bth.opcode]
  if not (opcode and (opcode.headers[1] == "seth" or opcode.headers[1] == "neth")) then
    words = ("%s EV=0x%08x"):format(words, ev)
  end
  return words .. (bth.ackreq ~= 0 and " [AckReq]" or "") .. (bth.rtx ~= 0 and " [rtx]" or "")
end
