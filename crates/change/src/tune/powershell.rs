//! The same settings for Windows, as a PowerShell script to be read and run there. It has not been tested.

use super::Profile;

/// A script for the adapters with these names; without names, for those with RDMA enabled.
pub fn script(profile: Profile, adapters: &[String]) -> String {
    let names = match adapters {
        [] => "(Get-NetAdapterRdma | Where-Object Enabled).Name".to_owned(),
        names => names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "),
    };
    let moderation = match profile {
        Profile::Latency => "'Disabled'",
        Profile::Throughput => "'Enabled'",
    };
    SCRIPT
        .replace("{profile}", profile.name())
        .replace("{adapters}", &names)
        .replace("{moderation}", moderation)
}

/// In single quotes, where PowerShell interprets only a doubled quote. It treats curly quotes as straight ones.
fn quoted(name: &str) -> String {
    let mut text = String::from("'");
    for letter in name.chars().filter(|letter| !letter.is_control()) {
        if matches!(letter, '\'' | '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}') {
            text.push(letter);
        }
        text.push(letter);
    }
    text + "'"
}

const SCRIPT: &str = r#"# RDMA on Windows Server, profile {profile}. Not run on Windows by its authors: read it, then run it as administrator.
# Adapters are briefly switched off. The changes persist across restarts.
$adapters = @({adapters})
if (-not $adapters) { throw 'no adapter with RDMA: Get-NetAdapterRdma lists them' }

# The current settings, to restore them later.
Get-NetAdapterRdma | Format-Table Name, Enabled
Get-NetAdapterAdvancedProperty -Name $adapters -RegistryKeyword '*JumboPacket', '*FlowControl', '*InterruptModeration' |
    Format-Table Name, RegistryKeyword, RegistryValue
Get-NetQosPolicy; Get-NetQosFlowControl; Get-NetQosTrafficClass

# RDMA, for the adapters and for the system.
Enable-NetAdapterRdma -Name $adapters
Set-NetOffloadGlobalSetting -NetworkDirect Enabled

# Frames of 9014 bytes: an MTU of 9000 and the Ethernet header. The switch must pass them.
Set-NetAdapterAdvancedProperty -Name $adapters -RegistryKeyword '*JumboPacket' -RegistryValue 9014

# Interrupts spread over CPUs, with or without moderation.
Enable-NetAdapterRss -Name $adapters
Set-NetAdapterAdvancedProperty -Name $adapters -DisplayName 'Interrupt Moderation' -DisplayValue {moderation}

# A lossless priority 3 for RDMA (SMB Direct, by its port); the switches must have the same. It requires pause frames for the
# whole port to be off.
Install-WindowsFeature -Name Data-Center-Bridging
Set-NetQosDcbxSetting -Willing $false -Confirm:$false
Set-NetAdapterAdvancedProperty -Name $adapters -RegistryKeyword '*FlowControl' -RegistryValue 0
New-NetQosPolicy -Name 'SMB Direct' -NetDirectPortMatchCondition 445 -PriorityValue8021Action 3
Enable-NetQosFlowControl -Priority 3
Disable-NetQosFlowControl -Priority 0, 1, 2, 4, 5, 6, 7
New-NetQosTrafficClass -Name 'SMB Direct' -Priority 3 -BandwidthPercentage 50 -Algorithm ETS
Enable-NetAdapterQos -Name $adapters

# To revert it: Remove-NetQosTrafficClass 'SMB Direct'; Remove-NetQosPolicy 'SMB Direct';
# Disable-NetQosFlowControl 3; Reset-NetAdapterAdvancedProperty -Name $adapters -DisplayName '*'
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        let script = script(Profile::Latency, &["SLOT 4'; Remove-Item C:\\".to_owned()]);
        assert!(script.contains("@('SLOT 4''; Remove-Item C:\\')"), "{script}");
        assert!(script.contains("Not run on Windows") && script.contains("'Disabled'"));
    }

    #[test]
    fn without_names_adapters_with_rdma_are_selected() {
        assert!(
            script(Profile::Throughput, &[]).contains("Get-NetAdapterRdma | Where-Object Enabled")
        );
    }
}
