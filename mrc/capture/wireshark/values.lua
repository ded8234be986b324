-- SPDX-License-Identifier: BSD-2-Clause
-- Values: what a header's fields are, and what else there is to say of them

local function hexadecimal(range)
  local digits = range:bytes():tohex():lower():gsub("^0+", "")
  return digits == "" and "0" or digits
end

local function value_of(field, range)
  if field.length > 4 then return hexadecimal(range) end
  if field.kind == "int16" then return range:int() end
  local value = range:uint()
  if field.bits then value = math.floor(value / 2 ^ field.shift) % 2 ^ field.bits end
  return value
end

local function is_there(field, values)
  if field.only_with then return values[field.only_with] ~= 0 end
  if field.absent_with then return values[field.absent_with] == 0 end
  if field.reserved then return values[field.name] ~= 0 and values[field.name] ~= "0" end
  return true
end

-- "4-6, 9" for a list of numbers in rising order.
local function runs(numbers)
  local parts, at = {}, 1
  while at <= #numbers do
    local last = at
    while numbers[last + 1] == numbers[last] + 1 do last = last + 1 end
    parts[#parts + 1] = last > at and ("%d-%d"):format(numbers[at], numbers[last]) or ("%d"):format(numbers[at])
    at = last + 1
  end
  return table.concat(parts, ", ")
end

local function psns_in_bitmap(values)
  local psns = {}
  local digits = ("0"):rep(16 - #values.bitmap) .. values.bitmap
  for bit_number = 0, 63 do
    local digit = tonumber(digits:sub(16 - math.floor(bit_number / 4), 16 - math.floor(bit_number / 4)), 16)
    if math.floor(digit / 2 ^ (bit_number % 4)) % 2 == 1 then
      psns[#psns + 1] = (values.cack_psn + values.sack_offset + bit_number) % PSNS
    end
  end
  return psns
end

local function received_psns(values)
  local psns = psns_in_bitmap(values)
  return #psns > 0 and "received " .. runs(psns)
end

local function ports_up(values)
  local ports = {}
  for bit_number = 0, 31 do
    if math.floor(values.port_status_mask / 2 ^ bit_number) % 2 == 1 then
      ports[#ports + 1] = bit_number + 1 - FIRST_PORT_BIT
    end
  end
  return #ports > 0 and "up: " .. runs(ports) or "none up"
end

local function timestamp(values)
  return values.tsr == 0 and ("%d ns"):format(values.tx_timestamp * TIMESTAMP_UNIT_NS)
end

-- By field: whatever header it is in, it means the same.
local REMARKS = {
  tx_timestamp = timestamp,
  port_status_mask = ports_up,
  ack_psn_offset = function(values) return ("PSN %d"):format((values.cack_psn + values.ack_psn_offset) % PSNS) end,
  sack_offset = function(values) return ("bitmap from PSN %d"):format((values.cack_psn + values.sack_offset) % PSNS) end,
  mpr = function(values) return values.mpr > 0 and ("%d PSNs"):format(values.mpr * MPR_UNIT) end,
  bitmap = received_psns,
  rcvd_bytes = function(values) return ("%d bytes"):format(values.rcvd_bytes * RECEIVED_UNIT) end,
}
